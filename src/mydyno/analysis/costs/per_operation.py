"""What an operation costs each arm, and how long it takes there.

A cost is a counter divided by the operations of the same time, one number per run. Costs are compared as effects are:
by block, against the mean of the control's two copies, with intervals that hold simultaneously over all costs. Which of
them are named with an effect: analysis/candidates.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mydyno.analysis.base import Examined
from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.costs import COSTS, Cost
from mydyno.model.stored.records import RunRecord, SliceRecord, StepRecord
from mydyno.model.stored.summary import CostRecord, CostsRecord, EffectRecord, OperationTime, RunSummary, with_summaries
from mydyno.results.families import Lane, families_of_values
from mydyno.results.precision import alarm_of
from mydyno.verdicts import Metric, decide_study

CostValues = dict[Lane, dict[str, dict[str, float]]]
"""lane → step → cost → value per operation"""
DRIVER_CPU = "driver_cpu_us_per_transaction"
DRIVER_USER_SHARE = "driver_cpu_user_share"
"""In the rates of a slice."""
RESPONSE = "latency_mean_us"
WORKER = "busiest_worker_pct"
"""In the rates of a slice: CPU time of the load program's busiest thread."""
LEAST_LEFT = 0.05
"""Least share of a host's CPU time that is taken as left for the load and its servers."""
FEWEST_BLOCKS = 3
"""Fewer have no interval of use over so many costs."""


@dataclass(frozen=True)
class _Times:
    """Times of a run at a step, in µs per operation."""

    connection_us: float
    """Time that a connection spends on it: connections × measured time / operations."""
    crowding: float
    """See OperationTime."""
    driver_crowding: float
    response_us: float | None


def analyse(study: Examined) -> CostsRecord | None:
    """As costs_of(). The runs of a screening design are not compared one by one, and statements have counters of their
    own.
    """
    if study.experiment.screen is not None or study.experiment.compares_statements:
        return None
    served = [one for one in study.used_slices if one.search is None]
    return costs_of(study.experiment, study.records, study.runs, served, study.alpha_of_causes, study.cpus)


def costs_of(
    experiment: Experiment,
    runs: Sequence[RunRecord],
    summaries: Sequence[RunSummary],
    slices: Iterable[SliceRecord],
    alpha: float | None,
    cpus: Mapping[str, float],
) -> CostsRecord | None:
    """Costs of all arms at all steps; None where no run has any, and of fewer than three blocks.

    `cpus`: usable CPUs by host group ("": the only one).

    Only runs and steps that count are used. alpha None: no look is due, and nothing is called beyond noise.
    """
    if len({run.block for run in runs}) < FEWEST_BLOCKS:
        return None
    values, times = _values(experiment, runs, summaries, list(slices), cpus)
    names = [name for name in COSTS if any(name in costs for steps in values.values() for costs in steps.values())]
    if not names:
        return None
    families = [
        family
        for name in names
        for family in families_of_values(
            experiment, _with_least(values, name), summaries, Metric(name, COSTS[name].unit, "lower")
        )
    ]
    decided = decide_study(families, alpha, total=experiment.verdict.error_rate)
    alarm = alarm_of(decided)
    records = tuple(
        record for effect in decided if (record := _record(effect, values, alpha is not None and not alarm)) is not None
    )
    return CostsRecord(
        costs=records, times=tuple(_mean(arm, step, of) for (arm, step), of in times.items()), alarm=alarm
    )


def _with_least(values: CostValues, name: str) -> dict[Lane, dict[str, float]]:
    """One cost. At a step where some lane lacks it, value + least, so that every lane has a logarithm."""
    least = COSTS[name].least
    lacking = _lacking(values, name)
    return {
        lane: {step: costs[name] + (least if step in lacking else 0) for step, costs in steps.items() if name in costs}
        for lane, steps in values.items()
    }


def _lacking(values: CostValues, name: str) -> set[str]:
    """The steps at which some lane has less of a cost than counts."""
    known = [(step, costs[name]) for steps in values.values() for step, costs in steps.items() if name in costs]
    return {step for step, value in known if value < COSTS[name].least}


def _values(
    experiment: Experiment,
    runs: Sequence[RunRecord],
    summaries: Sequence[RunSummary],
    slices: Sequence[SliceRecord],
    cpus: Mapping[str, float],
) -> tuple[CostValues, dict[tuple[str, str], list[_Times]]]:
    of_lane: dict[tuple[Lane, str], list[SliceRecord]] = defaultdict(list)
    for one in slices:
        if not one.failed:
            of_lane[(one.block, one.arm, one.copy_number), one.step].append(one)
    values: CostValues = {}
    times: dict[tuple[str, str], list[_Times]] = defaultdict(list)
    for run, summary in with_summaries(runs, summaries):
        lane = (run.block, run.arm, run.copy_number)
        for step in run.steps:
            if not summary.usable(step.id):
                continue
            own = of_lane.get((lane, step.id), [])
            found = _costs(step, own, summary.values.get(step.id, {}))
            if found:
                values.setdefault(lane, {})[step.id] = found
            usable = cpus.get(run.host_group, cpus.get("", 1))
            if step.driver.clients or experiment.server.ssh is not None:
                found = found | {"driver_cpu_us": 0.0}  # of other hosts' CPUs
            seen = _times(step.connections * max(1, len(run.servers)), step, own, found, usable)
            if seen is not None:
                response_us = summary.values.get(step.id, {}).get(RESPONSE)
                times[run.arm, step.id].append(replace(seen, response_us=response_us))
    return values, times


def _costs(step: StepRecord, slices: Sequence[SliceRecord], values: Mapping[str, float]) -> dict[str, float]:
    """Every cost of one run at one step that is known."""
    operations = float(step.driver.whole.get("transactions", 0))
    in_slices = float(sum(one.whole.get("transactions", 0) for one in slices))
    kernel = _kernel_totals(slices)
    split = all(DRIVER_USER_SHARE in one.rates for one in slices)
    cpu = _cpu_us(values, split)
    found: dict[str, float] = {}
    for name, cost in COSTS.items():
        value: float | None = None
        if cost.source == "cpu":
            value = cpu.get(name)
        elif cost.source == "kernel" and in_slices:
            value = _per_operation(cost, kernel, in_slices)
        elif cost.source == "connections":
            value = step.connection_memory_bytes
        elif cost.source == "server" and operations:
            value = _per_operation(cost, step.server_counters, operations)
        if value is not None:
            found[name] = value
    return found


def _per_operation(cost: Cost, counters: Mapping[str, float], operations: float) -> float | None:
    known = [counters[name] for name in cost.counters if name in counters]
    return max(0.0, sum(known)) * cost.factor / operations if known else None


def _kernel_totals(slices: Sequence[SliceRecord]) -> dict[str, float]:
    names = set.intersection(*(set(one.kernel_counters) for one in slices)) if slices else set()
    return {name: sum(one.kernel_counters[name] for one in slices) for name in names}


def _cpu_us(values: Mapping[str, float], split: bool) -> dict[str, float]:
    """CPU time of an operation: the run's own metrics, split by the shares in user mode and in the kernel.

    `split`: whether the load program's shares are known.
    """
    found = {}
    server = values.get("server_cpu_us_per_transaction")
    user, system = values.get("server_cpu_user_pct"), values.get("server_cpu_system_pct")
    if server is not None and user is not None and system is not None and user + system > 0:
        found["server_cpu_user_us"] = server * user / (user + system)
        found["server_cpu_system_us"] = server * system / (user + system)
    if DRIVER_CPU in values:
        driver = found["driver_cpu_us"] = values[DRIVER_CPU]
        user, system = values.get("driver_cpu_user_pct"), values.get("driver_cpu_system_pct")
        if split and user is not None and system is not None and user + system > 0:
            found["driver_cpu_user_us"] = driver * user / (user + system)
            found["driver_cpu_system_us"] = driver * system / (user + system)
    return found


def _times(
    connections: int, step: StepRecord, slices: Sequence[SliceRecord], costs: Mapping[str, float], cpus: float
) -> _Times | None:
    operations, seconds = step.driver.transactions, step.driver.duration_s
    if not operations or seconds <= 0:
        return None
    connection_us = connections * seconds * 1e6 / operations
    cpu_us = sum(costs.get(name, 0.0) for name in ("server_cpu_user_us", "server_cpu_system_us", "driver_cpu_us"))
    busy = min(1.0, cpu_us * operations / (seconds * 1e6 * cpus))
    crowding = max(1.0, busy * connections / cpus)
    return _Times(connection_us, crowding, max(crowding, _driver_crowding(connections, slices)), None)


def _left_by_others(slices: Sequence[SliceRecord]) -> float:
    """Share of the host's CPU time that neither other programs nor the hypervisor took; 1 where that is not known."""
    taken = [(one.strangers or 0.0) + (one.steal or 0.0) for one in slices]
    return max(LEAST_LEFT, 1.0 - float(np.mean(taken))) if taken else 1.0


def _driver_crowding(connections: int, slices: Sequence[SliceRecord]) -> float:
    """Connections per thread of the load program while its threads are busy; 1 where that is not known.

    A thread that computes for one connection keeps all others that it serves waiting, however many CPUs are idle. It is
    busy also while it waits for a CPU that other programs use.
    """
    seconds = sum(one.length_s for one in slices)
    if not slices or any(WORKER not in one.rates or one.driver_cpu_s is None for one in slices):
        return 1.0
    busy = sum(one.length_s * one.rates[WORKER] for one in slices) / seconds / 100.0
    if busy <= 0.0:
        return 1.0
    threads = max(1.0, sum(one.driver_cpu_s or 0.0 for one in slices) / (seconds * busy))
    return max(1.0, min(1.0, busy / _left_by_others(slices)) * connections / threads)


def _record(effect: EffectRecord, values: CostValues, may_claim: bool) -> CostRecord | None:
    def mean(arm: str) -> float | None:
        of_arm = [steps.get(effect.step, {}) for (_, of, _), steps in values.items() if of == arm]
        found = [costs[effect.metric] for costs in of_arm if effect.metric in costs]
        return float(np.mean(found)) if found else None

    control, arm = mean(effect.control), mean(effect.arm)
    if control is None or arm is None:
        return None
    own = {"cost": effect.metric, "control_value": control, "arm_value": arm}
    if effect.step in _lacking(values, effect.metric):
        own |= {"ratio": None}  # it is of (value + least)
    return CostRecord.like(effect, beyond_noise=effect.excludes_no_change and may_claim, **own)


def _mean(arm: str, step: str, of: Sequence[_Times]) -> OperationTime:
    responses = [one.response_us for one in of if one.response_us is not None]
    return OperationTime(
        step=step,
        arm=arm,
        connection_us=float(np.mean([one.connection_us for one in of])),
        crowding=float(np.mean([one.crowding for one in of])),
        driver_crowding=float(np.mean([one.driver_crowding for one in of])),
        response_us=float(np.mean(responses)) if responses and len(responses) == len(of) else None,
    )
