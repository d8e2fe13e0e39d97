"""How each arm's throughput grows with the connections: the Universal Scalability Law over the steps of a sweep.

Only closed loops count, where N connections are N transactions in progress. The unit is the block; a block counts for
an arm if every level has a valid value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import exp, log

import numpy as np

from mydyno.model.definition.experiment import Experiment, Step
from mydyno.model.definition.replay_speed import speed_of
from mydyno.model.stored.scalability import Estimate, ResponsePoint, ScalabilityRecord
from mydyno.model.stored.summary import RunSummary
from mydyno.results.values.closed_loop import is_closed, slots, thinks
from mydyno.stats.scalability import FEWEST_LEVELS, Bounds, Curve, Scalability, scalability

THROUGHPUT = ("tps", "ops", "tpmc")
"""Metrics of transactions or operations per unit of time; the first that the runs have is fitted."""
OF_ALL_TRANSACTIONS = ("tps", "ops")
"""Metrics that count every transaction or operation whose latency is measured (TpmC counts New-Orders)."""
LATENCY = "latency_p99_us"
RESPONSE = "latency_mean_us"
LACK_OF_FIT = 0.05
TOLERATED_DEVIATION = 0.05
"""A lack of fit that is certain but smaller than this is no reason to distrust the curve."""


def scalabilities_of(experiment: Experiment, runs: Sequence[RunSummary], alpha: float) -> tuple[ScalabilityRecord, ...]:
    """Every sweep of connections and arm; empty without a sweep of at least FEWEST_LEVELS levels."""
    found = []
    for steps in _sweeps(experiment):
        for arm in experiment.arms:
            record = _record(experiment, steps, arm.name, runs, alpha)
            if record is not None:
                found.append(record)
    return tuple(found)


def curve_of(record: ScalabilityRecord) -> Curve:
    """The record's law, to be drawn."""
    return Curve(record.serial.value, record.contention.value, record.coherency.value)


def _sweeps(experiment: Experiment) -> list[list[Step]]:
    """Steps that differ in connections alone, by connections."""
    alike: dict[str, dict[int, Step]] = defaultdict(dict)
    for step in experiment.resolved_steps:
        if step.rate is None and step.search is None and speed_of(step) is None:
            rest = step.model_dump_json(exclude={"id", "connections"})
            alike[rest].setdefault(step.connections, step)
    return [[of[n] for n in sorted(of)] for of in alike.values() if len(of) >= FEWEST_LEVELS]


def _record(
    experiment: Experiment, steps: Sequence[Step], arm: str, runs: Sequence[RunSummary], alpha: float
) -> ScalabilityRecord | None:
    for metric in THROUGHPUT:
        values = _by_block(steps, arm, runs, metric)
        if values:
            break
    else:
        return None
    levels = tuple(step.connections for step in steps)
    of_blocks = np.array([[values[block][step.id] for step in steps] for block in sorted(values)])
    law = scalability(levels, np.exp(of_blocks), 1 - alpha)
    if law is None:
        return None
    has_response = metric in OF_ALL_TRANSACTIONS and all(is_closed(step) and not thinks(step) for step in steps)
    p = law.lack_of_fit_p
    return ScalabilityRecord(
        workload=steps[0].workload,
        steps=tuple(step.id for step in steps),
        arm=arm,
        metric=metric,
        blocks=len(values),
        levels=levels,
        throughput=tuple(float(one) for one in np.exp(of_blocks.mean(axis=0))),
        latency_us=_means(steps, arm, runs, LATENCY),
        serial=_estimate(law.serial),
        contention=_estimate(law.contention),
        coherency=_estimate(law.coherency),
        peak=None if law.peak is None else _estimate(law.peak),
        lack_of_fit_p=p,
        largest_deviation=law.largest_deviation,
        fits=p is None or p >= LACK_OF_FIT or law.largest_deviation <= TOLERATED_DEVIATION,
        response=_response(law, slots(experiment, arm, steps[0]) / steps[0].connections) if has_response else (),
        measured_response_us=_means(steps, arm, runs, RESPONSE) if has_response else (),
    )


def _response(law: Scalability, under_way: float) -> tuple[ResponsePoint, ...]:
    """`under_way`: transactions under way on each connection (of all servers of a run, and in a pipeline)."""
    factor = 1e6 * under_way
    return tuple(
        ResponsePoint(
            connections=at,
            mean_us=factor * of.value,
            ci_low_us=None if of.low is None else factor * of.low,
            ci_high_us=None if of.high is None else factor * of.high,
        )
        for at, of in law.responses_s
    )


def _means(steps: Sequence[Step], arm: str, runs: Sequence[RunSummary], metric: str) -> tuple[float | None, ...]:
    blocks = _by_block(steps, arm, runs, metric).values()
    return tuple(_mean([of[step.id] for of in blocks]) for step in steps)


def _by_block(steps: Sequence[Step], arm: str, runs: Sequence[RunSummary], metric: str) -> dict[int, dict[str, float]]:
    """{block: {step: log of the value}} of the blocks with every level; the control's is the mean of its copies."""
    logs: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if run.arm == arm:
            for step in steps:
                value = run.values.get(step.id, {}).get(metric)
                if run.usable(step.id) and value is not None and value > 0:
                    logs[run.block][step.id].append(log(value))
    return {
        block: {step: sum(values) / len(values) for step, values in of.items()}
        for block, of in logs.items()
        if len(of) == len(steps)
    }


def _mean(logs: Sequence[float]) -> float | None:
    return exp(sum(logs) / len(logs)) if logs else None


def _estimate(bounds: Bounds) -> Estimate:
    return Estimate(value=bounds.value, ci_low=bounds.low, ci_high=bounds.high)
