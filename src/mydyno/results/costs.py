"""What an operation costs each arm, and which costs changed together with the effects.

A cost is a counter divided by the operations of the same time, one number per run. Costs are compared as effects are:
by block, against the mean of the control's two copies, with intervals that hold simultaneously over all costs. Nothing
here shows a cause: a cost that changed with an effect *accompanied* it, and an experiment has to test it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mydyno.model.costs import COSTS, THROUGHPUT, Cost
from mydyno.model.experiment import Experiment
from mydyno.model.records import RunRecord, SliceRecord, StepRecord
from mydyno.model.summary import AccompanimentRecord, CostRecord, CostsRecord, EffectRecord, RunSummary
from mydyno.results.families import margin_of
from mydyno.results.host_words import block_groups
from mydyno.verdicts import Effect, Family, Metric, Observation, decide_study

Lane = tuple[int, str, int]
"""(block, arm, copy)"""
CostValues = dict[Lane, dict[str, dict[str, float]]]
"""lane → step → cost → value per operation"""
FEWEST_BLOCKS = 3
"""Fewer have no interval of use over so many costs."""
ENOUGH = 0.25
"""Share of the change of time per operation below which a change of a cost is no explanation."""
MOST_NAMED = 5


@dataclass(frozen=True)
class _Times:
    """Of a run at a step, both in µs of one operation."""

    connection_us: float
    """Time that a connection spends on it: connections × measured time / operations."""
    crowding: float
    """Connections per CPU while the CPUs are busy, at least 1: by how much CPU time of one operation delays all."""


def costs_of(
    experiment: Experiment,
    runs: Sequence[RunRecord],
    summaries: Sequence[RunSummary],
    slices: Iterable[SliceRecord],
    effects: Sequence[EffectRecord],
    alpha: float | None,
    cpus: Mapping[str, int],
) -> CostsRecord | None:
    """Costs of all arms at all steps; None where no run has any, and of fewer than three blocks.

    `cpus`: usable CPUs by host group ("": the only one).

    Only runs and steps that count are used. alpha None: no look is due, and nothing is called beyond noise.
    """
    if len({run.block for run in runs}) < FEWEST_BLOCKS:
        return None
    values, times = _values(runs, summaries, list(slices), cpus)
    names = [name for name in COSTS if any(name in costs for steps in values.values() for costs in steps.values())]
    if not names:
        return None
    families = [
        family
        for name in names
        for control, arms in experiment.contrasts().items()
        if (family := _family(experiment, values, summaries, name, control, tuple(arms))) is not None
    ]
    decided = decide_study(families, alpha)
    alarm = next((effect.alarm for effect in decided if effect.alarm), "")
    records = tuple(
        record for effect in decided if (record := _record(effect, values, alarm, alpha is not None)) is not None
    )
    return CostsRecord(costs=records, accompaniments=tuple(_accompaniments(effects, records, times)), alarm=alarm)


def _values(
    runs: Sequence[RunRecord], summaries: Sequence[RunSummary], slices: Sequence[SliceRecord], cpus: Mapping[str, int]
) -> tuple[CostValues, dict[tuple[str, str], list[_Times]]]:
    of_lane: dict[tuple[Lane, str], list[SliceRecord]] = defaultdict(list)
    for one in slices:
        if not one.failed:
            of_lane[(one.block, one.arm, one.copy_number), one.step].append(one)
    counted = {(s.block, s.arm, s.copy_number): s for s in summaries if s.valid}
    values: CostValues = {}
    times: dict[tuple[str, str], list[_Times]] = defaultdict(list)
    for run in runs:
        lane = (run.block, run.arm, run.copy_number)
        summary = counted.get(lane)
        if summary is None:
            continue
        for step in run.steps:
            if step.id in summary.invalid_steps or step.id in summary.failures:
                continue
            own = of_lane.get((lane, step.id), [])
            found = _costs(step, own, summary.values.get(step.id, {}))
            if found:
                values.setdefault(lane, {})[step.id] = found
            usable = cpus.get(run.host_group, cpus.get("", 1))
            seen = _times(step.connections * max(1, len(run.servers)), step, own, found, usable)
            if seen is not None:
                times[run.arm, step.id].append(seen)
    return values, times


def _costs(step: StepRecord, slices: Sequence[SliceRecord], values: Mapping[str, float]) -> dict[str, float]:
    """Every cost of one run at one step that is known."""
    operations = float(step.driver.whole.get("transactions", 0))
    in_slices = float(sum(one.whole.get("transactions", 0) for one in slices))
    kernel = _kernel_totals(slices)
    cpu = _cpu_us(values)
    found: dict[str, float] = {}
    for name, cost in COSTS.items():
        value: float | None = None
        if cost.source == "cpu":
            value = cpu.get(name)
        elif cost.source == "kernel" and in_slices:
            value = _per_operation(cost, kernel, in_slices)
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


def _cpu_us(values: Mapping[str, float]) -> dict[str, float]:
    """CPU time of an operation: the run's own metrics, the server's split by its shares in user mode and kernel."""
    found = {}
    server = values.get("server_cpu_us_per_transaction")
    user, system = values.get("server_cpu_user_pct"), values.get("server_cpu_system_pct")
    if server is not None and user is not None and system is not None and user + system > 0:
        found["server_cpu_user_us"] = server * user / (user + system)
        found["server_cpu_system_us"] = server * system / (user + system)
    if "driver_cpu_us_per_transaction" in values:
        found["driver_cpu_us"] = values["driver_cpu_us_per_transaction"]
    return found


def _times(
    connections: int, step: StepRecord, slices: Sequence[SliceRecord], costs: Mapping[str, float], cpus: int
) -> _Times | None:
    operations = sum(one.transactions for one in slices) if slices else step.driver.transactions
    seconds = sum(one.length_s for one in slices) if slices else step.driver.duration_s
    if not operations or seconds <= 0:
        return None
    connection_us = connections * seconds * 1e6 / operations
    cpu_us = sum(costs.get(name, 0.0) for name in ("server_cpu_user_us", "server_cpu_system_us", "driver_cpu_us"))
    busy = min(1.0, cpu_us * operations / (seconds * 1e6 * max(1, cpus)))
    return _Times(connection_us, max(1.0, busy * connections / max(1, cpus)))


def _family(
    experiment: Experiment,
    values: CostValues,
    summaries: Sequence[RunSummary],
    name: str,
    control: str,
    arms: tuple[str, ...],
) -> Family | None:
    """One cost as a metric of its own: value + least, so that a cost that is not there has a logarithm too."""
    cost = COSTS[name]

    def observations(step: str, among: tuple[str, ...]) -> tuple[Observation, ...]:
        return tuple(
            Observation(block, arm, steps[step][name] + cost.least, copy)
            for (block, arm, copy), steps in values.items()
            if arm in among and name in steps.get(step, {})
        )

    def family(of: str, among: tuple[str, ...], a_a: Family | None = None) -> Family | None:
        steps = {step.id: found for step in experiment.resolved_steps if (found := observations(step.id, among))}
        if not steps:
            return None
        return Family(
            metric=Metric(name, cost.unit, "lower"),
            control=of,
            arms=among,
            steps=steps,
            margin=margin_of(experiment, name),
            seed=experiment.design.seed,
            a_a=a_a,
            host_groups=block_groups(summaries),
        )

    if control == experiment.control:
        return family(control, (*arms, control))
    copies = family(experiment.control, (experiment.control,))
    return None if copies is None else family(control, (*arms, control), copies)


def _record(effect: Effect, values: CostValues, alarm: str, due: bool) -> CostRecord | None:
    def mean(arm: str) -> float | None:
        of_arm = [steps.get(effect.step, {}) for (_, of, _), steps in values.items() if of == arm]
        found = [costs[effect.metric] for costs in of_arm if effect.metric in costs]
        return float(np.mean(found)) if found else None

    control, arm = mean(effect.control), mean(effect.arm)
    if control is None or arm is None:
        return None
    low, high = effect.ci_low, effect.ci_high
    excludes = low is not None and high is not None and (low > 1.0 or high < 1.0)
    return CostRecord(
        cost=effect.metric,
        step=effect.step,
        arm=effect.arm,
        control=effect.control,
        control_value=control,
        arm_value=arm,
        ratio=effect.ratio,
        ci_low=low,
        ci_high=high,
        beyond_noise=excludes and due and not alarm,
    )


def _accompaniments(
    effects: Sequence[EffectRecord], costs: Sequence[CostRecord], times: Mapping[tuple[str, str], Sequence[_Times]]
) -> Iterable[AccompanimentRecord]:
    """Of every shown effect on throughput: the costs that moved the other way, beyond noise, and far enough."""
    for effect in effects:
        if effect.metric not in THROUGHPUT or effect.verdict not in ("higher", "lower"):
            continue
        here = times.get((effect.arm, effect.step)), times.get((effect.control, effect.step))
        if not here[0] or not here[1]:
            continue
        arm_us, control_us = (float(np.mean([one.connection_us for one in side])) for side in here if side)
        change_us = arm_us - control_us
        crowding = float(np.mean([one.crowding for side in here if side for one in side]))
        candidates = [
            (record, share)
            for record in costs
            if (record.arm, record.control, record.step) == (effect.arm, effect.control, effect.step)
            and record.beyond_noise
            and (share := _explains(COSTS[record.cost], record, change_us, crowding)) >= ENOUGH
        ]
        candidates.sort(key=lambda one: (-min(1.0, one[1]), -_nearest(one[0])))
        for record, share in candidates[:MOST_NAMED]:
            yield AccompanimentRecord(
                metric=effect.metric,
                step=effect.step,
                arm=effect.arm,
                control=effect.control,
                cost=record.cost,
                explains=round(min(1.0, share), 4),
                measured=COSTS[record.cost].is_time,
            )


def _explains(cost: Cost, record: CostRecord, change_us: float, crowding: float) -> float:
    """Share of `change_us` that the change of a cost accounts for, at most; negative: it moved the other way."""
    change = record.arm_value - record.control_value
    if change_us == 0.0:
        return 0.0
    if cost.source == "cpu":
        return change * crowding / change_us
    return change * (1.0 if cost.is_time else cost.event_us) / change_us


def _nearest(record: CostRecord) -> float:
    """How far the interval stays from no change, in logarithms."""
    if record.ci_low is None or record.ci_high is None:
        return 0.0
    return float(min(abs(np.log(record.ci_low)), abs(np.log(record.ci_high))))
