"""The numbers of each run of an interleaved study, from its saved slices: see stats/slices.py for the method.

Rates and CPU costs are totals over the block's cycles, relative to the control's first copy in the same cycles, and
adjusted for what the host's speed was in the slices of other arms around. Latency percentiles come from the histograms
of all of a lane's slices merged. Memory is compared at equal operations served: interpolated to the fewest operations
that any lane served by the end of the step. The capacity of each start of a search is a value like any other metric of
a run; its ratio between arms is paired by block, since slices of all arms alternate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.special_steps import CAPACITIES, EARLY, EARLY_QUERIES, MEMORY, QUERIES
from mydyno.model.metrics import FEWEST_OF_GROWTH, GROWTH, METRICS, SPREAD_OF, ordered, split_instance
from mydyno.model.stored.records import SliceRecord
from mydyno.model.stored.summary import InterleavingRecord
from mydyno.results.values.interference import (
    alone_record,
    carried_over,
    interference_notes,
    longest_washout_s,
    stretched_cycles,
)
from mydyno.results.values.step_slices import COVARIATES, Lane, StepSlices, groups_of, lane_of, step_slices
from mydyno.stats.capacity import Outcome, estimates
from mydyno.stats.percentiles import percentiles_of
from mydyno.stats.slices import (
    Array,
    adjusted_work,
    enough_for_slopes,
    residual_variance,
    slopes,
    spread_between,
    spread_within,
)

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


Values = dict[Lane, dict[str, dict[str, float]]]
"""lane → step → metric → value"""
MOST_DROPPED = 0.5
"""Share of a step's cycles that may be dropped in a block; those with the largest spread go first."""


@dataclass(frozen=True)
class Ratio:
    """A metric that is work per time or cost per operation: total of `over` divided by total of `under`."""

    over: Callable[[SliceRecord], float | None]
    under: Callable[[SliceRecord], float | None]
    factor: float = 1.0
    sign: float = 0.0
    """1: a rate, which rises with the host's speed; -1: a cost, which falls; 0: neither, and not adjusted."""


def _rate(name: str) -> Callable[[SliceRecord], float | None]:
    return lambda one: one.rates[name] * one.length_s if name in one.rates else None


def _length(one: SliceRecord) -> float:
    return one.length_s


def _instances(one: SliceRecord) -> int:
    """How many instances the slice's load went to. A run of one has no values of instances."""
    return max(1, sum(base == "tps" and instance is not None for base, instance in map(split_instance, one.rates)))


def _queries(one: SliceRecord) -> float:
    return one.done_queries


def _transactions(one: SliceRecord) -> float:
    return one.done_transactions


def _executed(*names: str) -> Ratio:
    """Per query; not adjusted: no host is faster in instructions."""

    def total(one: SliceRecord) -> float | None:
        return sum(one.executed[name] for name in names) if set(names) <= set(one.executed) else None

    return Ratio(total, _queries)


RATIOS: dict[str, Ratio] = {
    "qps": Ratio(_queries, _length, sign=1.0),
    "tps": Ratio(_transactions, _length, sign=1.0),
    "tpmc": Ratio(_rate("tpmc"), _length, sign=1.0),
    "tpmc_per_instance": Ratio(_rate("tpmc"), lambda one: one.length_s * _instances(one), sign=1.0),
    "ops": Ratio(_rate("ops"), _length, sign=1.0),
    "kv_misses_per_s": Ratio(_rate("kv_misses_per_s"), _length),
    "kv_hit_pct": Ratio(_rate("kv_hit_pct"), _length),
    "server_cpu_us_per_query": Ratio(lambda one: one.server_cpu_s, _queries, 1e6, -1.0),
    "server_cpu_us_per_transaction": Ratio(lambda one: one.server_cpu_s, _transactions, 1e6, -1.0),
    "driver_cpu_us_per_transaction": Ratio(lambda one: one.driver_cpu_s, _transactions, 1e6, -1.0),
    "server_instructions_per_query": _executed("server_user_instructions", "server_kernel_instructions"),
    "server_kernel_instructions_per_query": _executed("server_kernel_instructions"),
    "server_cycles_per_query": _executed("server_cycles"),
    "driver_instructions_per_query": _executed("driver_user_instructions", "driver_kernel_instructions"),
    "network_bytes_per_transaction": Ratio(
        lambda one: _times(one.rates.get("network_bytes_per_transaction"), one.done_transactions),
        _transactions,
    ),
}
PLAIN = ("cpu_user_pct", "cpu_system_pct", "cpu_iowait_pct")
"""Rates that are the plain mean of the slices."""


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


@dataclass
class InterleavedValues:
    """What summarise needs of all slices of a study."""

    adjusted: Values
    unadjusted: Values
    record: InterleavingRecord


def interleaved_values(
    experiment: Experiment,
    slices: Sequence[SliceRecord],
    waited_s: float = 0.0,
    alone: Sequence[SliceRecord] = (),
    only: Collection[str] | None = None,
) -> InterleavedValues:
    """Values of every lane.

    `alone` are the control's slices with the other servers stopped. `only` are the metrics that the caller uses, for
    callers after each block: of the others some or all are left out, and so are their coefficients.

    Slices of a lane that failed at a step are not used there: its failure is its result.
    """
    adjusted: Values = defaultdict(dict)
    unadjusted: Values = defaultdict(dict)
    coefficients: dict[str, dict[str, dict[str, float]]] = {}
    within: dict[str, dict[str, float]] = {}
    between: dict[str, dict[str, float]] = {}
    with_others = only is None or not set(only) <= RATIOS.keys()
    of_step, cycles, dropped = _usable_steps(slices, experiment.validity.steal)
    washout_s = longest_washout_s(experiment, slices)
    for step, data in of_step.items():
        kept = data.slices
        coefficients[step], within[step], between[step] = {}, {}, {}
        for lane, own in _by_lane(kept).items():
            plain = _others(own, kept, lane) if with_others else {}
            adjusted[lane][step], unadjusted[lane][step] = dict(plain), dict(plain)
        for metric, ratio in RATIOS.items():
            if only is not None and metric not in only:
                continue
            _add_metric(
                data, metric, ratio, experiment.control, step, adjusted, unadjusted, coefficients, within, between
            )
    for lane, steps in capacity_values(experiment, slices).items():
        adjusted[lane] |= steps
    used = {name for metrics in coefficients.values() for slopes_of in metrics.values() for name in slopes_of}
    steals = [one.steal for one in slices if one.steal is not None]
    strangers = [one.strangers for one in slices if one.strangers is not None]
    carried = carried_over(of_step, coefficients, washout_s)
    co_residence = alone_record(alone, of_step)
    record = InterleavingRecord(
        slice_s=experiment.design.slice,
        washout_s=washout_s,
        cycles=cycles,
        dropped_cycles=dropped,
        waited_s=round(waited_s, 3),
        steal_mean=float(np.mean(steals)) if steals else None,
        steal_max=max(steals, default=None),
        strangers_mean=float(np.mean(strangers)) if strangers else None,
        covariates=tuple(name for name in COVARIATES if name in used),
        coefficients=coefficients,
        sd_within=within,
        sd_between=between,
        carry_over={step: round(effect, 6) for step, effect in carried.items()},
        alone=co_residence,
        notes=tuple(interference_notes(slices)),
    )
    for values in (adjusted, unadjusted):
        for steps in values.values():
            for step in steps:
                steps[step] = {name: steps[step][name] for name in ordered(steps[step])}
    return InterleavedValues(dict(adjusted), dict(unadjusted), record)


def _usable_steps(slices: Sequence[SliceRecord], most_steal_spread: float) -> tuple[dict[str, StepSlices], int, int]:
    """(each step's slices that are used, cycles of all steps, cycles dropped because of steal).

    Slices of a search are left out: rates and costs at a rate that the search chose compare nothing.
    """
    by_step: dict[str, list[SliceRecord]] = defaultdict(list)
    for one in slices:
        if one.search is None:
            by_step[one.step].append(one)
    of_step: dict[str, StepSlices] = {}
    dropped, cycles = 0, len({(one.step, one.block, one.cycle) for one in slices if one.search is not None})
    for step, found in by_step.items():
        kept, gone = _kept(_of_lanes_that_served(found), most_steal_spread)
        cycles += len({(one.block, one.cycle) for one in found})
        dropped += gone
        if kept:
            of_step[step] = step_slices(kept, found)
    return of_step, cycles, dropped


def _of_lanes_that_served(slices: Sequence[SliceRecord]) -> list[SliceRecord]:
    """Without the lanes in which a slice failed."""
    failed = {lane_of(one) for one in slices if one.failed}
    return [one for one in slices if lane_of(one) not in failed]


def _by_lane(slices: Sequence[SliceRecord]) -> dict[Lane, list[SliceRecord]]:
    found: dict[Lane, list[SliceRecord]] = defaultdict(list)
    for one in slices:
        found[lane_of(one)].append(one)
    return found


def _kept(slices: Sequence[SliceRecord], most_spread: float) -> tuple[list[SliceRecord], int]:
    """Complete cycles without interruption, without too unequal steal; how many these were. Sees no result."""
    cycles: dict[tuple[int, int], list[SliceRecord]] = defaultdict(list)
    interrupted = stretched_cycles(slices)
    for one in slices:
        cycles[one.block, one.cycle].append(one)
    lanes: dict[int, int] = defaultdict(int)
    for (block, _), own in cycles.items():
        lanes[block] = max(lanes[block], len(own))
    whole = {key: own for key, own in cycles.items() if len(own) == lanes[key[0]] and key not in interrupted}
    dropped: set[tuple[int, int]] = set()
    for block in lanes:
        of_block = [key for key in whole if key[0] == block]
        spread = {key: _steal_spread(whole[key]) for key in of_block}
        unequal = sorted((key for key in of_block if spread[key] > most_spread), key=lambda key: -spread[key])
        dropped |= set(unequal[: int(MOST_DROPPED * len(of_block))])
    kept = [one for key in sorted(whole) if key not in dropped for one in whole[key]]
    return kept, len(dropped)


def _steal_spread(slices: Sequence[SliceRecord]) -> float:
    steals = [one.steal for one in slices if one.steal is not None]
    return max(steals) - min(steals) if steals else 0.0


def _chosen(data: StepSlices, log_values: Array, rows: NDArray[np.bool_], sign: float) -> tuple[list[str], Array]:
    """The covariates that leave a metric the least noise, and their coefficients; none, where none leaves less.

    The noise is that of slices beyond the means of their lanes and cycles: no effect of an arm is in it.
    """
    groups, names = data.groups.of(rows), list(data.covariates)
    best: tuple[list[str], Array] = ([], np.zeros(0))
    least = residual_variance(log_values, np.zeros((len(log_values), 0)), best[1], groups)
    for count in range(1, len(names) + 1 if sign else 1):
        if not enough_for_slopes(groups, count):
            break
        x = _columns(data, names[:count])[rows]
        beta = slopes(log_values, x, groups, np.array([sign * COVARIATES[name] for name in names[:count]]))
        variance = residual_variance(log_values, x, beta, groups)
        if variance < least:
            best, least = (names[:count], beta), variance
    return best


def _columns(data: StepSlices, names: Sequence[str]) -> Array:
    """The covariates of all slices (n × k)."""
    return np.column_stack([data.covariates[name] for name in names]) if names else np.zeros((len(data.slices), 0))


def _add_metric(
    data: StepSlices,
    metric: str,
    ratio: Ratio,
    control: str,
    step: str,
    adjusted: Values,
    unadjusted: Values,
    coefficients: dict[str, dict[str, dict[str, float]]],
    within: dict[str, dict[str, float]],
    between: dict[str, dict[str, float]],
) -> None:
    """One metric of one step, for every lane that has it in all of its slices."""
    lacking = {lane_of(one) for one in data.slices if ratio.over(one) is None or ratio.under(one) is None}
    if lacking:
        data = _without_lanes(data, lacking)
        if not data.slices:
            return
    over_list, under_list = [ratio.over(one) for one in data.slices], [ratio.under(one) for one in data.slices]
    over, under = np.array(over_list, dtype=np.float64), np.array(under_list, dtype=np.float64)
    if not (under > 0).all():
        over, under = np.where(under > 0, over, 0.0), np.where(under > 0, under, 0.0)
    usable = (over > 0) & (under > 0)
    names, beta = _chosen(data, np.log(over[usable] / under[usable]), usable, ratio.sign)
    if names:
        coefficients[step][metric] = {name: round(float(b), 6) for name, b in zip(names, beta, strict=True)}
    x = _columns(data, names)
    centre = np.median(x, axis=0)
    better = adjusted_work(over, x, beta, centre)
    lanes = _by_lane_index(data)
    for lane, rows in lanes.items():
        total = float(under[rows].sum())
        if total > 0:
            adjusted[lane][step][metric] = ratio.factor * float(better[rows].sum()) / total
            unadjusted[lane][step][metric] = ratio.factor * float(over[rows].sum()) / total
    _note_spread(metric, step, control, better, under, lanes, within, between)


def _without_lanes(data: StepSlices, lanes: set[Lane]) -> StepSlices:
    kept = np.array([lane_of(one) not in lanes for one in data.slices], dtype=bool)
    slices = [one for one, keep in zip(data.slices, kept, strict=True) if keep]
    covariates = {name: values[kept] for name, values in data.covariates.items()}
    return StepSlices(slices, groups_of(slices), data.before[kept], covariates)


def _by_lane_index(data: StepSlices) -> dict[Lane, list[int]]:
    found: dict[Lane, list[int]] = defaultdict(list)
    for index, one in enumerate(data.slices):
        found[lane_of(one)].append(index)
    return found


def _note_spread(
    metric: str,
    step: str,
    control: str,
    better: Array,
    under: Array,
    lanes: Mapping[Lane, Sequence[int]],
    within: dict[str, dict[str, float]],
    between: dict[str, dict[str, float]],
) -> None:
    """Add the spread of the control's copy A′ against A, within and between blocks: they differ by noise alone."""
    ratios, means = [], []
    for (block, arm, copy), rows in lanes.items():
        reference = lanes.get((block, control, 1))
        if (arm, copy) != (control, 2) or reference is None or len(rows) != len(reference):
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios.append(np.log(better[rows] / under[rows]) - np.log(better[reference] / under[reference]))
        totals = [better[rows].sum() / under[rows].sum(), better[reference].sum() / under[reference].sum()]
        if min(totals) > 0:
            means.append(float(np.log(totals[0] / totals[1])))
    inside = spread_within(ratios)
    if inside is None:
        return
    within[step][metric] = inside
    cycles = float(np.mean([len(one) for one in ratios]))
    among = spread_between(np.array(means), inside, cycles)
    if among is not None:
        between[step][metric] = among


def _others(own: Sequence[SliceRecord], all_slices: Sequence[SliceRecord], lane: Lane) -> dict[str, float]:
    """Values of one lane that are no ratio of totals: latency, memory, host CPU, instances' own rates."""
    found: dict[str, float] = {}
    found |= {f"latency_{name}_us": value for name, value in latency_of(own).items() if value > 0}
    found |= _memory_at_equal_operations(own, all_slices, lane) | _growth(own)
    steals = [one.steal for one in own if one.steal is not None]
    if steals:
        found["cpu_steal_pct"] = 100 * float(np.mean(steals))
    seconds = sum(one.length_s for one in own)
    if seconds and all(one.server_cpu_s is not None for one in own):
        share = float(np.mean([one.rates.get("server_cpu_user_share", 0.0) for one in own]))
        percent = 100 * sum(one.server_cpu_s or 0.0 for one in own) / seconds
        found["server_cpu_user_pct"], found["server_cpu_system_pct"] = percent * share, percent * (1 - share)
    if seconds and all(one.driver_cpu_s is not None for one in own):
        percent = 100 * sum(one.driver_cpu_s or 0.0 for one in own) / seconds
        share = float(np.mean([one.rates.get("driver_cpu_user_share", 0.0) for one in own]))
        found["driver_cpu_pct"] = percent
        found["driver_cpu_user_pct"], found["driver_cpu_system_pct"] = percent * share, percent * (1 - share)
    found |= _interface_rates(own)
    rates = {name for one in own for name in one.rates if name not in RATIOS}
    for name in rates:
        base = name.rpartition("_instance_")[0] or name
        if (name in PLAIN or base in METRICS) and all(name in one.rates for one in own):
            found[name] = float(np.mean([one.rates[name] for one in own]))
    return found | _between_instances(found, own)


def latency_of(slices: Sequence[SliceRecord]) -> dict[str, float]:
    """Of all of them: percentiles, mean, min and max, in µs, as far as anything ended."""
    found = percentiles_of([text for one in slices for text in one.histograms])
    if transactions := sum(one.transactions for one in slices):
        found["mean"] = sum(o.latency_us.get("mean", 0.0) * o.transactions for o in slices) / transactions
    for name, choose in (("min", min), ("max", max)):
        if known := [one.latency_us[name] for one in slices if name in one.latency_us]:
            found[name] = choose(known)
    return found


def _growth(own: Sequence[SliceRecord]) -> dict[str, float]:
    """The factor by which resident memory grows in a million queries: least squares over the log of what it is after
    slices.
    """
    memory = [one.server_rss_bytes for one in own if one.server_rss_bytes]
    millions = np.array(_served(own)) / 1e6
    if len(memory) < max(FEWEST_OF_GROWTH, len(own)) or millions[-1] <= millions[0]:
        return {}
    slope = np.polynomial.Polynomial.fit(millions, np.log(memory), 1).convert().coef[1]
    return {GROWTH: float(np.exp(slope))}


def _between_instances(means: Mapping[str, float], own: Sequence[SliceRecord]) -> dict[str, float]:
    """The worst instance and the spread between instances, of their means over the lane's slices.

    Means are used, as the noise of slices would make any spread larger. With one instance it is the worst.
    """
    found = {}
    for rate in SPREAD_OF:
        rates = [value for name, value in means.items() if name.startswith(f"{rate}_instance_")]
        if len(rates) > 1 and sum(rates) > 0:
            found[f"{rate}_spread_pct"] = 100.0 * (max(rates) - min(rates)) / (sum(rates) / len(rates))
        if rate == "tpmc" and all("tpmc" in one.rates for one in own):
            found["tpmc_worst_instance"] = min(rates, default=float(np.mean([one.rates["tpmc"] for one in own])))
    return found


def _interface_rates(own: Sequence[SliceRecord]) -> dict[str, float]:
    """Bytes per second that the lane's interface sent and received; empty if its load passes none."""
    if not own or any("network_bytes_per_transaction" not in one.rates for one in own):
        return {}
    rates = [o.rates["network_bytes_per_transaction"] * o.done_transactions / o.length_s for o in own]
    sent = [rate * one.rates["network_tx_share"] for rate, one in zip(rates, own, strict=True)]
    mean, mean_sent = float(np.mean(rates)), float(np.mean(sent))
    return {"network_tx_bytes_per_s": mean_sent, "network_rx_bytes_per_s": mean - mean_sent}


def _memory_at_equal_operations(
    own: Sequence[SliceRecord], all_slices: Sequence[SliceRecord], lane: Lane
) -> dict[str, float]:
    """Interpolated where each arm of the block had served as many queries since its start as the one with the fewest;
    resident memory also where the last arm of the block's first cycle had. Empty where there is no such number.
    """
    served = {
        one: _served([o for o in all_slices if lane_of(o) == one])
        for one in {lane_of(o) for o in all_slices}
        if one[0] == lane[0]
    }
    late, early = min(amounts[-1] for amounts in served.values()), max(amounts[0] for amounts in served.values())
    found: dict[str, float] = {}
    if late < early:  # one had served more after its first slice than another one after its last
        return found
    for name in MEMORY:
        values = [getattr(one, name) for one in own]
        if all(value is not None for value in values):
            found |= {name: float(np.interp(late, served[lane], values)), QUERIES: float(late)}
            if name == MEMORY[0] and early < late:
                found |= {EARLY: float(np.interp(early, served[lane], values)), EARLY_QUERIES: float(early)}
    return found


def _served(own: Sequence[SliceRecord]) -> list[int]:
    """Queries since the server's start at the end of each slice; earlier versions counted the measured parts alone."""
    if all(one.served is not None for one in own):
        return [one.served or 0 for one in own]
    return [int(count) for count in np.cumsum([one.queries for one in own])]
