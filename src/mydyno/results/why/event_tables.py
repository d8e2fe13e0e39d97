"""Events that were counted on the servers of runs (waits, the kernel's events): tables by block, and what differs.

The unit is the run: everything that was counted of a run at a step is one number for each item. Items are compared by
the means of stats/sampled.py, with the mean amount of an event in place of a sample: an event that is rare and long has
the noise of its count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.obstacles import CopiesDiffer
from mydyno.model.stored.records import RunRecord
from mydyno.model.stored.summary import RunSummary
from mydyno.stats.sampled import Difference, Sampled, SampledContrast, Server, differences

MOST_COMPARED = 150
"""Items of a contrast; the largest are taken."""
COPY = "A′"
"""Name of the control's second copy as an arm."""

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
    counted = {(one.block, one.arm, one.copy_number): one for one in summaries}
    connections = {step.id: step.connections for step in experiment.resolved_steps}
    found: dict[str, list[Counted[T]]] = defaultdict(list)
    for run in runs:
        summary = counted.get((run.block, run.arm, run.copy_number))
        for facts in facts_of(run) if summary else ():
            assert summary is not None
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
    items: tuple[Item, ...]
    means: NDArray[np.float64]
    """The mean amount of each item's events."""
    rates: NDArray[np.float64]
    """How often an item occurs per transaction, by server: the mean over the blocks."""
    connection_us: NDArray[np.float64]
    """A connection's time per transaction, by server."""

    def amounts(self) -> NDArray[np.float64]:
        """Per transaction, by item and server."""
        return np.asarray(self.sampled.amounts * self.means[:, None])

    def copy_as_arm(self, control: str, name: str) -> EventTable:
        """With the control's second copy as an arm of this name."""
        servers = tuple(Server(name) if one == Server(control, 2) else one for one in self.sampled.servers)
        return replace(self, sampled=replace(self.sampled, servers=servers))


def table_of(counted: Sequence[Counted[T]]) -> EventTable:
    """The table of one step."""
    servers = tuple(dict.fromkeys(sorted((one.server for one in counted), key=lambda s: (s.arm, s.copy))))
    blocks = sorted({one.block for one in counted})
    rows = {item: row for row, item in enumerate(dict.fromkeys(item for one in counted for item in one.items))}
    shape = (len(rows), len(blocks), len(servers))
    amounts, counts = np.zeros(shape), np.zeros(shape)
    units, connection_us = np.full(shape[1:], np.nan), np.full(shape[1:], np.nan)
    for one in counted:
        at = blocks.index(one.block), servers.index(one.server)
        units[at] = 1.0 / one.totals.transactions
        connection_us[at] = one.connection_us
        for item, (count, amount) in one.items.items():
            amounts[rows[item], *at] = amount
            counts[rows[item], *at] = count
    means = amounts.sum(axis=(1, 2)) / np.maximum(counts.sum(axis=(1, 2)), 1.0)
    means = np.where(means > 0.0, means, 1.0)  # clocks with a coarse resolution count events without a time
    sampled = Sampled(servers, amounts / means[:, None, None], units)
    return EventTable(
        sampled,
        tuple(rows),
        means,
        Sampled(servers, counts, units).amounts,
        Sampled(servers, np.ones((1, *shape[1:])), connection_us).amounts[0],
    )


Enough = Callable[[EventTable, float], NDArray[np.float64]]
"""(table, µs of a connection per transaction) → the least amount of each item that is compared, in arm and control
together."""


def compared(table: EventTable, arm: str, control: str, enough: Enough) -> SampledContrast | None:
    """The contrast over the items that have enough of both sides together; None without both.

    An item is chosen by the mean of the two sides, which does not depend on what differs between them.
    """
    sampled, amounts = table.sampled, table.amounts()
    if not sampled.columns(arm) or not sampled.columns(control):
        return None
    both = (sampled.mean(amounts, arm) + sampled.mean(amounts, control)) / 2.0
    whole = (sampled.mean(table.connection_us, arm) + sampled.mean(table.connection_us, control)) / 2.0
    chosen = np.flatnonzero(both >= enough(table, float(whole)))
    largest = sorted(chosen.tolist(), key=lambda item: -both[item])[:MOST_COMPARED]
    return SampledContrast(table.sampled, arm, control, tuple(sorted(largest)))


def alarm(
    control: str, tables: Mapping[str, EventTable], enough: Enough, alpha: float, name: Callable[[Item], str]
) -> CopiesDiffer | None:
    """An item that differs between the control's two copies."""
    contrasts = []
    for step, table in tables.items():
        contrast = compared(table.copy_as_arm(control, COPY), COPY, control, enough)
        if contrast is not None:
            contrasts.append((step, table, contrast))
    for (step, table, contrast), found in zip(contrasts, differences([c for *_, c in contrasts], alpha), strict=True):
        for item, one in zip(contrast.items, found, strict=True):
            if one.excludes_no_change:
                return CopiesDiffer(control=control, step=step, kind="event", of=name(table.items[item]))
    return None


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
                item=table.items[item],
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
