"""Which design a study has: interleaved wherever all arms can be up at the same time, else blocks; and why."""

from __future__ import annotations

from mydyno.errors import UserError
from mydyno.hosts.settings import Settings
from mydyno.model.experiment import Experiment
from mydyno.model.plan import Design
from mydyno.treatments.coexistence import client_work_differs, interleaving_obstacles


def choose_design(experiment: Experiment, settings: Settings) -> Design:
    """The design with its reason. Raises UserError where the experiment demands one that cannot be had here."""
    untouched = not client_work_differs(experiment)
    kind = experiment.design.kind
    if kind == "blocks":
        return Design("blocks", 'design.kind = "blocks"', untouched)
    obstacles = interleaving_obstacles(experiment, settings)
    if not obstacles:
        return Design("interleaved", "all arms can run at the same time", untouched)
    if kind == "interleaved":
        raise UserError(
            'design.kind = "interleaved": the arms cannot run at the same time:\n  ' + "\n  ".join(obstacles),
            'use design.kind = "blocks", or "auto"',
        )
    return Design("blocks", "; ".join(obstacles), untouched)
