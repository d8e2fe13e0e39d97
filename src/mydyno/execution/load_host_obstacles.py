"""What an experiment has that a load from client hosts cannot do."""

from __future__ import annotations

from mydyno.model.experiment import Experiment
from mydyno.treatments.catalogue import treatments_of

DRIVER = "dynoload"
"""The only load program with agents."""


def load_host_obstacles(experiment: Experiment) -> list[str]:
    """Sentences; empty if the load can come from client hosts."""
    drivers = dict.fromkeys(step.driver for step in experiment.resolved_steps if step.driver != DRIVER)
    found = [f'steps: {driver} has no agents on other hosts; set driver = "{DRIVER}"' for driver in drivers]
    arms: dict[str, list[str]] = {}
    for arm in experiment.arms:
        for treatment in treatments_of(arm):
            why = treatment.load_host_obstacle()
            if why is not None:
                arms.setdefault(f"{treatment.name}: {why}", []).append(arm.name)
    return found + [f"arm{'s' if len(names) > 1 else ''} {', '.join(names)}: {words}" for words, names in arms.items()]
