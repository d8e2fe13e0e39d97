"""The capacity of each start of a search, from its saved slices: a value like any other metric of a run.

The ratio between arms is paired by block, since slices of all arms alternate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.special_steps import CAPACITIES
from mydyno.model.stored.records import SliceRecord
from mydyno.results.values.step_slices import Lane, lane_of
from mydyno.stats.capacity import Outcome, estimates

Starts = dict[Lane, list[SliceRecord]]


def starts_of(slices: Sequence[SliceRecord], step: str) -> Starts:
    """{lane: its slices of a search}, without the lanes that failed."""
    found: Starts = defaultdict(list)
    failed = {lane_of(one) for one in slices if one.step == step and one.failed}
    for one in slices:
        if one.step == step and one.search is not None and lane_of(one) not in failed:
            found[lane_of(one)].append(one)
    return dict(found)


def outcomes_of(slices: Sequence[SliceRecord]) -> list[Outcome]:
    """Loads and outcomes of a start's slices."""
    return [Outcome(one.search.level, one.search.met) for one in slices if one.search is not None]


def capacity_values(experiment: Experiment, slices: Sequence[SliceRecord]) -> dict[Lane, dict[str, dict[str, float]]]:
    """lane → step → {metric: capacity}; empty where all slices of a start met the objective, or none."""
    values: dict[Lane, dict[str, dict[str, float]]] = defaultdict(dict)
    for step in experiment.resolved_steps:
        starts = starts_of(slices, step.id)
        if step.search is None or not starts:
            continue
        metric = CAPACITIES[step.search.of]
        found, _ = estimates([outcomes_of(own) for own in starts.values()], [arm for _, arm, _ in starts])
        for lane, one in zip(starts, found, strict=True):
            values[lane][step.id] = {metric: one.capacity} if one is not None and one.bracketed else {}
    return dict(values)
