"""Mean numbers of active sessions, and counters of InnoDB per transaction: what differs between an arm and its control.

Both are compared by the means of stats/sampled.py, a sampled session or a counted event being one sample. Consecutive
samples of a session depend on each other, which counting noise does not know; the noise between blocks does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mydyno.analysis.waits.counted_waits import CountedRun
from mydyno.model.stored.waits import AmountKind, AmountRecord, wait_class
from mydyno.stats.sampled import Difference, Sampled, SampledContrast, Server

LEAST_SESSIONS = 0.05
"""Mean number of arm and control: what fewer do is not compared."""
LEAST_COUNT = 10
"""Least growth of a counter per run, as the mean of arm and control; counters with less are not compared."""
MOST_COMPARED = 120
MOST_SESSIONS = 24
"""Rows of sessions of a contrast in summary.json."""
MOST_METRICS = 12
_ORDER: dict[AmountKind, int] = {"active": 0, "wait": 1, "state": 2, "metric": 3}

Amount = tuple[AmountKind, str]


@dataclass(frozen=True)
class Amounts:
    """The amounts of one step."""

    sampled: Sampled
    items: tuple[Amount, ...]

    def copy_as_arm(self, control: str, name: str) -> Amounts:
        """With the control's second copy as an arm of this name."""
        servers = tuple(Server(name) if one == Server(control, 2) else one for one in self.sampled.servers)
        return replace(self, sampled=replace(self.sampled, servers=servers))


def session_amounts(counted: Sequence[CountedRun]) -> Amounts:
    """Active sessions, by their states and the classes of their waits. Runs without samples are missing."""

    def of(run: CountedRun) -> Iterable[tuple[Amount, float]]:
        for one in run.totals.sessions:
            name = wait_class(one.name) if one.kind == "wait" else one.name
            yield (one.kind, name), float(one.count)

    return _amounts(counted, of, lambda run: run.totals.samples)


def metric_amounts(counted: Sequence[CountedRun]) -> Amounts:
    """InnoDB's counters per transaction. Runs without any are missing."""

    def of(run: CountedRun) -> Iterable[tuple[Amount, float]]:
        for one in run.totals.metrics:
            yield ("metric", one.name), one.count

    return _amounts(counted, of, lambda run: run.totals.transactions if run.totals.metrics else 0)


def _amounts(
    counted: Sequence[CountedRun],
    of: Callable[[CountedRun], Iterable[tuple[Amount, float]]],
    number: Callable[[CountedRun], int],
) -> Amounts:
    """`number`: what the counts of a run are divided by; 0: nothing was counted."""
    servers = tuple(dict.fromkeys(sorted((one.server for one in counted), key=lambda s: (s.arm, s.copy))))
    blocks = sorted({one.block for one in counted})
    found = [(one, list(of(one))) for one in counted if number(one)]
    rows = {item: row for row, item in enumerate(dict.fromkeys(item for _, items in found for item, _ in items))}
    counts = np.zeros((len(rows), len(blocks), len(servers)))
    units = np.full((len(blocks), len(servers)), np.nan)
    for run, items in found:
        at = blocks.index(run.block), servers.index(run.server)
        units[at] = 1.0 / number(run)
        for item, count in items:
            counts[rows[item], *at] += count
    return Amounts(Sampled(servers, counts, units), tuple(rows))


def compared(of: Amounts, arm: str, control: str) -> SampledContrast | None:
    """The contrast over the items that have enough of both sides together; None without any, or without both."""
    sampled, units = of.sampled, of.sampled.units
    sides = sampled.columns(arm), sampled.columns(control)
    if not of.items or any(np.isnan(units[:, side]).all() for side in sides):
        return None
    both = (sampled.mean(sampled.amounts, arm) + sampled.mean(sampled.amounts, control)) / 2.0
    per_run = both / np.nanmean(units[:, [*sides[0], *sides[1]]])
    is_metric = np.array([kind == "metric" for kind, _ in of.items])
    enough = np.flatnonzero(np.where(is_metric, per_run >= LEAST_COUNT, both >= LEAST_SESSIONS))
    largest = sorted(enough.tolist(), key=lambda item: -both[item])[:MOST_COMPARED]
    return SampledContrast(of.sampled, arm, control, tuple(sorted(largest))) if largest else None


def amount_records(
    of: Amounts, contrast: SampledContrast, found: Sequence[Difference], may_claim: bool
) -> list[AmountRecord]:
    """One for each item of the contrast, in its order."""
    return [
        AmountRecord(
            kind=of.items[item][0],
            name=of.items[item][1],
            control=round(one.control, 6),
            arm=round(one.arm, 6),
            low=None if one.low is None else round(one.low, 6),
            high=None if one.high is None else round(one.high, 6),
            beyond_noise=may_claim and one.excludes_no_change,
        )
        for item, one in zip(contrast.items, found, strict=True)
    ]


def session_records(records: Sequence[AmountRecord]) -> tuple[AmountRecord, ...]:
    """All active sessions, then the classes of their waits, then their states: each the largest first."""
    ordered = sorted(records, key=lambda one: (_ORDER[one.kind], -max(one.arm, one.control)))
    return tuple(ordered[:MOST_SESSIONS])


def metric_records(records: Sequence[AmountRecord]) -> tuple[AmountRecord, ...]:
    """The counters that differ beyond noise, the largest relative difference first."""
    shown = [one for one in records if one.beyond_noise]
    shown.sort(key=lambda one: -abs(one.arm - one.control) / max(one.arm, one.control))
    return tuple(shown[:MOST_METRICS])
