"""Events that were counted on the servers of runs (waits, the kernel's events): tables by block, and what differs; the
cost of the slices in which something is counted or profiled; and the effects that causes are named with.

The unit is the run: everything that was counted of a run at a step is one number for each item. Items are compared by
the means of stats/sampled.py, with the mean amount of an event in place of a sample: an event that is rare and long has
the noise of its count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.costs import THROUGHPUT
from mydyno.model.stored.counted import SlicesApart
from mydyno.model.stored.reasons import Alarm, CopiesDiffer
from mydyno.model.stored.records import RunRecord, SliceRecord
from mydyno.model.stored.summary import EffectRecord, RunSummary, with_summaries
from mydyno.stats.paired import paired
from mydyno.stats.sampled import COPY, Difference, Sampled, SampledContrast, Server, copies_alarm, differences

MOST_COMPARED = 150
"""Items of a contrast; the largest are taken."""

Item = Hashable
T = TypeVar("T", bound="Totals")


class Facts(Protocol):
    """What a run's record states of one step."""

    @property
    def step(self) -> str:
        """The step."""

    @property
    def file(self) -> str:
        """Path below the run's folder; empty: nothing was counted."""

    @property
    def transactions(self) -> int:
        """Transactions of all slices that were counted."""


class Totals(Protocol):
    """What a file of counts states."""

    @property
    def transactions(self) -> int:
        """Transactions of all slices together."""

    @property
    def loaded_s(self) -> float:
        """Length of all slices together."""


@dataclass(frozen=True)
class Counted(Generic[T]):
    """What was counted of one run at one step."""

    block: int
    server: Server
    totals: T
    connection_us: float
    """What a transaction took of a connection's time."""
    items: Mapping[Item, tuple[float, float]]
    """{item: (count, amount) of the run}; the amount is µs, or the count again of what has no duration."""


def counted_by_step(
    folder: Path,
    experiment: Experiment,
    runs: Sequence[RunRecord],
    summaries: Sequence[RunSummary],
    facts_of: Callable[[RunRecord], Sequence[Facts]],
    read: Callable[[Path], T],
    items_of: Callable[[T], Mapping[Item, tuple[float, float]]],
) -> dict[str, list[Counted[T]]]:
    """{step: what was counted of the runs that count there}."""
    connections = {step.id: step.connections for step in experiment.resolved_steps}
    found: dict[str, list[Counted[T]]] = defaultdict(list)
    for run, summary in with_summaries(runs, summaries):
        for facts in facts_of(run):
            if facts.file and facts.transactions and summary.usable(facts.step):
                totals = read(folder / run.folder / facts.file)
                of_run = connections[facts.step] * max(1, len(run.servers))
                connection_us = 1e6 * of_run * totals.loaded_s / totals.transactions
                server = Server(run.arm, run.copy_number)
                found[facts.step].append(Counted(run.block, server, totals, connection_us, items_of(totals)))
    return dict(found)


@dataclass(frozen=True)
class EventTable:
    """The events of one step. Arrays are by item, block and server."""

    sampled: Sampled
    """Counts in events of mean amount."""
    means: NDArray[np.float64]
    """The mean amount of each item's events."""
    rates: NDArray[np.float64]
    """How often an item occurs per transaction, by server: the mean over the blocks."""
    connection_us: NDArray[np.float64]
    """A connection's time per transaction, by server."""

    def with_copy(self, control: str) -> EventTable:
        """With the control's second copy as the arm COPY."""
        return replace(self, sampled=self.sampled.with_copy(control))


def table_of(counted: Sequence[Counted[T]]) -> EventTable:
    """The table of one step."""

    def sampled(place: int) -> Sampled:
        return Sampled.of(
            [
                (
                    one.block,
                    one.server,
                    1.0 / one.totals.transactions,
                    {item: of[place] for item, of in one.items.items()},
                )
                for one in counted
            ]
        )

    counts, amounts = sampled(0), sampled(1)
    times = Sampled.of([(one.block, one.server, one.connection_us, {"": 1.0}) for one in counted])
    means = amounts.counts.sum(axis=(1, 2)) / np.maximum(counts.counts.sum(axis=(1, 2)), 1.0)
    means = np.where(means > 0.0, means, 1.0)  # clocks with a coarse resolution count events without a time
    in_events = replace(amounts, counts=amounts.counts / means[:, None, None])
    return EventTable(in_events, means, counts.amounts, times.amounts[0])


Enough = Callable[[EventTable, float], NDArray[np.float64]]
"""(table, µs of a connection per transaction) → the least amount of each item that is compared, in arm and control
together."""


def compared(table: EventTable, arm: str, control: str, enough: Enough) -> SampledContrast | None:
    """The contrast over the items that have enough of both sides together; None without both."""
    sampled = table.sampled
    if not sampled.columns(arm) or not sampled.columns(control):
        return None
    both = sampled.of_both(sampled.amounts * table.means[:, None], arm, control)
    whole = float(sampled.of_both(table.connection_us, arm, control))
    return sampled.contrast(arm, control, both, both >= enough(table, whole), MOST_COMPARED)


def alarm(control: str, tables: Mapping[str, EventTable], enough: Enough, alpha: float) -> CopiesDiffer | None:
    """An item that differs between the control's two copies."""
    found = [(step, compared(table.with_copy(control), COPY, control, enough)) for step, table in tables.items()]
    return copies_alarm([(step, "event", str, of) for step, of in found if of is not None], alpha)


@dataclass(frozen=True)
class Compared:
    """One item of an arm and of its control, per transaction. Amounts are in the item's own unit."""

    item: Item
    control_count: float
    arm_count: float
    control: float
    arm: float
    low: float | None
    high: float | None
    beyond_noise: bool


@dataclass(frozen=True)
class ComparedSides:
    """A contrast at one step."""

    blocks: int
    """Blocks in which both arm and control were counted."""
    control_us: float
    arm_us: float
    """What a transaction takes of a connection's time."""
    items: tuple[Compared, ...]


def sides(contrast: SampledContrast, table: EventTable, found: Sequence[Difference], may_claim: bool) -> ComparedSides:
    """A contrast with its differences, in amounts per transaction. may_claim False: nothing is beyond noise."""
    of = table.sampled
    control_counts, arm_counts = (of.mean(table.rates, side) for side in (contrast.control, contrast.arm))
    items = []
    for item, one in zip(contrast.items, found, strict=True):
        unit = float(table.means[item])
        items.append(
            Compared(
                item=of.items[item],
                control_count=round(float(control_counts[item]), 6),
                arm_count=round(float(arm_counts[item]), 6),
                control=round(one.control * unit, 4),
                arm=round(one.arm * unit, 4),
                low=None if one.low is None else round(one.low * unit, 4),
                high=None if one.high is None else round(one.high * unit, 4),
                beyond_noise=may_claim and one.excludes_no_change,
            )
        )
    arm_present, control_present = (
        (~np.isnan(of.units[:, of.columns(side)])).any(axis=1) for side in (contrast.arm, contrast.control)
    )
    return ComparedSides(
        blocks=int((arm_present & control_present).sum()),
        control_us=round(float(of.mean(table.connection_us, contrast.control)), 4),
        arm_us=round(float(of.mean(table.connection_us, contrast.arm)), 4),
        items=tuple(items),
    )


def compare_steps(
    tables: Mapping[str, EventTable],
    contrasts_of: Mapping[str, Sequence[str]],
    enough: Enough,
    alpha: float,
    seed: int,
    may_claim: bool,
) -> list[tuple[str, str, str, ComparedSides]]:
    """(step, arm, control, both sides) of every contrast, with intervals that are simultaneous over all of them.

    `contrasts_of`: {control: its arms}.
    """
    pairs = [(arm, control) for control, arms in contrasts_of.items() for arm in arms]
    contrasts = [
        (step, contrast)
        for step, table in tables.items()
        for arm, control in pairs
        if (contrast := compared(table, arm, control, enough)) is not None
    ]
    found = differences([contrast for _, contrast in contrasts], alpha, seed)
    return [
        (step, contrast.arm, contrast.control, sides(contrast, tables[step], of, may_claim))
        for (step, contrast), of in zip(contrasts, found, strict=True)
    ]


class ApartFacts(Protocol):
    """What a run's record states of such slices of one step."""

    @property
    def slices(self) -> int:
        """How many there were."""

    @property
    def missing(self) -> str:
        """Why some are missing; empty: none is."""


def slices_apart(
    facts: Sequence[ApartFacts], slices: Sequence[SliceRecord], apart: Sequence[SliceRecord], alarm: Alarm
) -> SlicesApart:
    """The summary for a whole study. `slices`: the measured ones that count; `apart`: those that it is about."""
    cost = paired(_slowdowns(slices, apart))
    return SlicesApart(
        slices=sum(one.slices for one in facts),
        throughput_ratio=cost.ratio,
        throughput_low=cost.interval.low,
        throughput_high=cost.interval.high,
        alarm=alarm,
        missing=tuple(dict.fromkeys(one.missing for one in facts if one.missing)),
    )


def _slowdowns(slices: Sequence[SliceRecord], apart: Sequence[SliceRecord]) -> list[float]:
    """For each block the mean log ratio of slices apart to the measured ones before and after them. At a rate, or at
    captured times, throughput shows no cost.
    """
    measured = {
        (one.block, one.step, one.arm, one.copy_number, one.cycle): log(one.done_transactions / one.length_s)
        for one in slices
        if one.transactions and not (one.failed or one.planned or one.captured)
    }
    found: dict[int, list[float]] = defaultdict(list)
    for one in apart:
        around = [
            rate
            for cycle in (one.cycle, one.cycle + 1)
            if (rate := measured.get((one.block, one.step, one.arm, one.copy_number, cycle))) is not None
        ]
        if around and one.transactions:
            found[one.block].append(log(one.done_transactions / one.length_s) - sum(around) / len(around))
    return [sum(of_block) / len(of_block) for of_block in found.values()]


SERVER_CPU = ("server_cpu_us_per_query", "server_cpu_us_per_transaction")
LATENCY = "latency_"
"""Beginning of the names of metrics of the response time."""


def explained(effects: Sequence[EffectRecord]) -> list[EffectRecord]:
    """Effects that are higher or lower, in their order.

    For an arm at a step with an effect on throughput, that one alone: its latency and its CPU time follow from the same
    changes. Otherwise one effect on latency and one on the server's CPU time.
    """
    shown = [one for one in effects if one.verdict in ("higher", "lower") and one.ratio is not None]
    faster = {one.contrast[1:] for one in shown if one.metric in THROUGHPUT}
    found: list[EffectRecord] = []
    seen: set[tuple[str, ...]] = set()
    for one in shown:
        if one.metric in THROUGHPUT:
            found.append(one)
            continue
        kind = "cpu" if is_of_server_cpu(one) else "latency" if is_of_latency(one) else ""
        if kind and one.contrast[1:] not in faster and (kind, *one.contrast[1:]) not in seen:
            seen.add((kind, *one.contrast[1:]))
            found.append(one)
    return found


def is_of_server_cpu(one: EffectRecord) -> bool:
    """Whether it is an effect on the server's CPU time."""
    return one.metric in SERVER_CPU


def is_of_latency(one: EffectRecord) -> bool:
    """Whether it is an effect on the response time."""
    return one.metric.startswith(LATENCY)
