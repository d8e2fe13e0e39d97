"""The capacity of each arm of a search, from its saved slices: one number per start, then an interval over blocks.

The unit is the block, as everywhere: the slices of one start give one capacity (stats/capacity.py), which enters the
verdicts like any other metric of a run. The ratio between arms is paired by block, since slices of all arms alternate.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import exp, log

import numpy as np

from mydyno.model.definition.experiment import Experiment, Step
from mydyno.model.definition.search import CAPACITY
from mydyno.model.stored.capacity import CapacityRecord
from mydyno.model.stored.records import SliceRecord
from mydyno.model.stored.summary import RunSummary
from mydyno.results.values.step_slices import Lane, lane_of
from mydyno.stats.capacity import Outcome, estimates
from mydyno.stats.paired import paired

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
    """Rates and outcomes of a start's slices."""
    return [Outcome(one.search.rate, one.search.met) for one in slices if one.search is not None]


def capacity_values(experiment: Experiment, slices: Sequence[SliceRecord]) -> dict[Lane, dict[str, dict[str, float]]]:
    """lane → step → {CAPACITY: operations per second}; empty where all slices of a start met the objective, or none."""
    values: dict[Lane, dict[str, dict[str, float]]] = defaultdict(dict)
    for step in experiment.resolved_steps:
        starts = starts_of(slices, step.id) if step.search is not None else {}
        if not starts:
            continue
        found, _ = estimates([outcomes_of(own) for own in starts.values()], [arm for _, arm, _ in starts])
        for lane, one in zip(starts, found, strict=True):
            values[lane][step.id] = {CAPACITY: one.capacity} if one is not None and one.bracketed else {}
    return dict(values)


def capacities_of(
    experiment: Experiment, runs: Sequence[RunSummary], slices: Sequence[SliceRecord], alpha: float
) -> tuple[CapacityRecord, ...]:
    """Every step and arm of a search, from these runs; empty without a search."""
    blocks = {run.block for run in runs}
    own = [one for one in slices if one.block in blocks]
    found = []
    for step in experiment.resolved_steps:
        if step.search is None:
            continue
        starts = starts_of(own, step.id)
        if not starts:
            continue
        _, sigma = estimates([outcomes_of(one) for one in starts.values()], [arm for _, arm, _ in starts])
        for arm in experiment.arms:
            of_arm = {lane: one for lane, one in starts.items() if lane[1] == arm.name}
            record = _record(step, arm.name, of_arm, _used(runs, step, arm.name), sigma, alpha)
            if record is not None:
                found.append(record)
    return tuple(found)


def _used(runs: Sequence[RunSummary], step: Step, arm: str) -> dict[int, float]:
    """{block: capacity}, of valid runs; the control's is the geometric mean of its copies."""
    logs: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        value = run.values.get(step.id, {}).get(CAPACITY)
        if run.arm == arm and run.usable(step.id) and value:
            logs[run.block].append(log(value))
    return {block: exp(sum(values) / len(values)) for block, values in sorted(logs.items())}


def _record(
    step: Step, arm: str, starts: Starts, of_block: Mapping[int, float], sigma: float, alpha: float
) -> CapacityRecord | None:
    if not of_block or step.search is None:
        return None
    logs = np.log(list(of_block.values()))
    interval = paired(logs, 1 - alpha).interval
    searches = [one.search for slices in starts.values() for one in slices if one.search is not None]
    return CapacityRecord(
        step=step.id,
        arm=arm,
        metric=step.search.metric,
        limit_us=step.search.limit_us,
        capacity_tps=exp(float(logs.mean())),
        ci_low=interval.low,
        ci_high=interval.high,
        blocks=len(of_block),
        slices=len(searches),
        sigma=sigma,
        of_block=dict(of_block),
        unbracketed=sum(len({one.met for one in outcomes_of(slices)}) < 2 for slices in starts.values()),
        missed_by=dict(Counter(one.because for one in searches if one.because)),
    )
