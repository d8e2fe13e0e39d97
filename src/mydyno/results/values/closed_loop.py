"""Whether connections always have a transaction under way, and how many can be, as the experiment says."""

from __future__ import annotations

from mydyno.model.definition.experiment import Experiment, Step

ALWAYS_BUSY = ("oltp_", "tpcc", "kv_")
"""Beginning of the names of workloads of mydyno's own: their connections have no time between transactions."""


def is_closed(step: Step) -> bool:
    """Whether the step has no rate: the next transaction begins when one has ended."""
    return step.rate is None and step.search is None and not step.options.get("rate")


def thinks(step: Step) -> bool:
    """Whether connections may be idle between transactions (think times, a script of the user's own)."""
    own = step.file is None and step.workload.startswith(ALWAYS_BUSY)
    return not own or bool(step.options.get("key_and_think_times"))


def slots(experiment: Experiment, arm: str, step: Step) -> int:
    """How many transactions can be under way: connections of all servers of a run, times operations on each."""
    depth = int(step.options.get("depth", 1))
    terminals = int(step.options.get("terminals", 0)) if step.options.get("key_and_think_times") else 0
    return max(step.connections, terminals) * depth * experiment.instances_of(experiment.arm(arm))
