"""What an experiment has that a load from client hosts cannot do."""

from __future__ import annotations

from mydyno.model.definition.experiment import Experiment

DRIVER = "dynoload"
"""The only load program with agents."""


def load_host_obstacles(experiment: Experiment) -> list[str]:
    """Sentences; empty if the load can come from client hosts."""
    drivers = dict.fromkeys(step.driver for step in experiment.resolved_steps if step.driver != DRIVER)
    return [f'steps: {driver} has no agents on other hosts; set driver = "{DRIVER}"' for driver in drivers]
