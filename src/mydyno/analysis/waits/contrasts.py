"""What the servers' threads wait for per transaction, and which waits differ between an arm and its control.

Events are compared as in results/why.py. The sum of each class of waits is compared like an event. Mean numbers of
active sessions, and counters of InnoDB per transaction, are compared by the means of stats/sampled.py, a sampled
session or a counted event being one sample. Consecutive samples of a session depend on each other, which counting noise
does not know; the noise between blocks does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mydyno.analysis.base import Examined
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.special_steps import is_paced
from mydyno.model.stored.counted import (
    CLIENT,
    AmountKind,
    AmountRecord,
    EventTotal,
    LockInstances,
    WaitKind,
    WaitRecord,
    WaitsContrast,
    WaitsRecord,
    WaitTotals,
    wait_class,
)
from mydyno.model.stored.reasons import CopiesDiffer
from mydyno.model.stored.records import RunRecord
from mydyno.model.stored.summary import RunSummary
from mydyno.results.why import Compared, Counted, EventTable, Item, counted_by_step, sides, slices_apart, table_of
from mydyno.results.why import compared as compared_events
from mydyno.stats.sampled import COPY, Copies, Difference, Sampled, SampledContrast, copies_alarm, differences
from mydyno.store.samples import WAITS_FILE, read_totals

Event = tuple[WaitKind, str, str]
"""(kind, name, class); of a class as a whole, ("wait", its name, "")."""
CountedRun = Counted[WaitTotals]


def counted_runs(
    folder: Path, experiment: Experiment, runs: Sequence[RunRecord], summaries: Sequence[RunSummary]
) -> dict[str, list[CountedRun]]:
    """{step: what was counted of the runs that count there}."""
    found = counted_by_step(folder, experiment, runs, summaries, lambda run: run.waits, _read, _items)
    paced = {step.id for step in experiment.resolved_steps if is_paced(step)}
    return {step: [_with_client(run, step in paced) for run in of_step] for step, of_step in found.items()}


def event(item: Item) -> Event:
    """An item of these tables."""
    assert isinstance(item, tuple)
    return item


def _read(path: Path) -> WaitTotals:
    return read_totals(path, WaitTotals)


def _with_client(run: CountedRun, paced: bool) -> CountedRun:
    """With the time outside of statements; nothing is added where no statements were counted. `paced`: connections are
    idle until a transaction is due, and it takes the time of its statements.
    """
    statements = run.totals.statements
    count, time_us = sum(one.count for one in statements), sum(one.time_us for one in statements)
    if not count:
        return run
    if paced:
        return replace(run, connection_us=time_us / run.totals.transactions)
    outside_us = run.connection_us * run.totals.transactions - time_us
    return replace(run, items={**run.items, ("wait", CLIENT, ""): (count, max(0.0, outside_us))})


def _items(totals: WaitTotals) -> dict[Item, tuple[float, float]]:
    """{event or class: (count, µs) of the run}."""
    found: dict[Item, tuple[float, float]] = {}

    def add(item: Event, one: EventTotal) -> None:
        count, time_us = found.get(item, (0.0, 0.0))
        found[item] = (count + one.count, time_us + one.time_us)

    for one in totals.waits:
        of_class = wait_class(one.name)
        if of_class:
            add(("wait", one.name, of_class), one)
            add(("wait", of_class, ""), one)
    for one in totals.stages:
        add(("stage", one.name, ""), one)
    for one in totals.statements:
        add(("statement", one.name, ""), one)
    return found


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


def session_amounts(counted: Sequence[CountedRun]) -> Sampled:
    """Active sessions, by their states and the classes of their waits. Runs without samples are missing."""

    def of(run: CountedRun) -> Counter[Amount]:
        found: Counter[Amount] = Counter()
        for one in run.totals.sessions:
            found[one.kind, wait_class(one.name) if one.kind == "wait" else one.name] += one.count
        return found

    return _amounts(counted, of, lambda run: run.totals.samples)


def metric_amounts(counted: Sequence[CountedRun]) -> Sampled:
    """InnoDB's counters per transaction. Runs without any are missing."""

    def of(run: CountedRun) -> dict[Amount, float]:
        return {("metric", one.name): one.count for one in run.totals.metrics}

    return _amounts(counted, of, lambda run: run.totals.transactions if run.totals.metrics else 0)


def _amounts(
    counted: Sequence[CountedRun],
    of: Callable[[CountedRun], Mapping[Amount, float]],
    number: Callable[[CountedRun], int],
) -> Sampled:
    """`number`: what the counts of a run are divided by; 0: nothing was counted."""
    return Sampled.of(
        [
            (run.block, run.server, 1.0 / number(run), of(run)) if number(run) else (run.block, run.server, nan, {})
            for run in counted
        ]
    )


def compared(of: Sampled, arm: str, control: str) -> SampledContrast | None:
    """The contrast over the items that have enough of both sides together; None without any, or without both."""
    sides = of.columns(arm), of.columns(control)
    if not of.items or any(np.isnan(of.units[:, side]).all() for side in sides):
        return None
    both = of.of_both(of.amounts, arm, control)
    per_run = both / np.nanmean(of.units[:, [*sides[0], *sides[1]]])
    is_metric = np.array([kind == "metric" for kind, _ in of.items])
    enough = np.where(is_metric, per_run >= LEAST_COUNT, both >= LEAST_SESSIONS)
    contrast = of.contrast(arm, control, both, enough, MOST_COMPARED)
    return contrast if contrast.items else None


def amount_records(contrast: SampledContrast, found: Sequence[Difference], may_claim: bool) -> list[AmountRecord]:
    """One for each item of the contrast, in its order."""
    return [
        AmountRecord(
            kind=contrast.table.items[item][0],
            name=contrast.table.items[item][1],
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


LEAST_SHARE = 0.002
"""Least share of a transaction's time, of arm and control together: events with less are not compared."""
MOST_EVENTS = 60
"""Most events of a contrast in summary.json."""


Locks = Mapping[tuple[str, str], LockInstances]
"""{(lock, arm): its instances}, of all runs of the arm."""


@dataclass(frozen=True)
class _Contrasts:
    """The contrasts between one arm and its control at one step."""

    events: SampledContrast
    sessions: SampledContrast | None
    metrics: SampledContrast | None


@dataclass(frozen=True)
class _Step:
    """The tables of one step."""

    events: EventTable
    locks: Locks
    sessions: Sampled
    metrics: Sampled

    def contrasts(self, arm: str, control: str) -> _Contrasts | None:
        """None without both sides."""
        events = compared_events(self.events, arm, control, _enough)
        if events is None:
            return None
        return _Contrasts(events, compared(self.sessions, arm, control), compared(self.metrics, arm, control))

    def of_copies(self, control: str) -> _Contrasts | None:
        """The control's second copy against the first; None where one was not counted."""
        sessions, metrics = self.sessions.with_copy(control), self.metrics.with_copy(control)
        return _Step(self.events.with_copy(control), self.locks, sessions, metrics).contrasts(COPY, control)


@dataclass(frozen=True)
class _Claims:
    """Whether differences may be claimed."""

    waits: bool
    metrics: bool


def analyse(study: Examined) -> WaitsRecord | None:
    """The waits of a study; None where they were not asked for."""
    experiment, runs, alpha = study.experiment, study.records, study.alpha_of_causes
    facts = [one for run in runs for one in run.waits]
    if not facts:
        return None
    counted = counted_runs(study.path, experiment, runs, study.runs)
    steps = {
        step: _Step(table_of(of_step), _locks(of_step), session_amounts(of_step), metric_amounts(of_step))
        for step, of_step in counted.items()
    }
    pairs = [(arm, control) for control, arms in experiment.contrasts().items() for arm in arms]
    compared_steps = [
        (name, contrasts)
        for name, step in steps.items()
        for arm, control in pairs
        if (contrasts := step.contrasts(arm, control)) is not None
    ]
    seed, level = experiment.design.seed, alpha or 0.05
    found = _differences([one for _, of in compared_steps for one in (of.events, of.sessions)], level, seed)
    found |= _differences([of.metrics for _, of in compared_steps], level, seed)
    copies = [(name, of) for name, step in steps.items() if (of := step.of_copies(experiment.control)) is not None]
    alarm = _alarm(copies, level)
    of_metrics: list[Copies] = [(name, "event", str, of.metrics) for name, of in copies if of.metrics is not None]
    claims = _Claims(alpha is not None and not alarm, alpha is not None and not copies_alarm(of_metrics, level))
    return WaitsRecord(
        contrasts=tuple(_contrast(name, steps[name], of, found, claims) for name, of in compared_steps),
        **dict(slices_apart(facts, study.used_slices, study.apart[WAITS_FILE], alarm)),
        samples=sum(run.totals.samples for of_step in counted.values() for run in of_step),
        lost=_most_lost([run.totals.lost for of_step in counted.values() for run in of_step]),
    )


def _differences(contrasts: Sequence[SampledContrast | None], alpha: float, seed: int) -> dict[int, list[Difference]]:
    """{id of a contrast: its differences}, whose intervals are simultaneous."""
    having = [one for one in contrasts if one is not None]
    return {id(one): of for one, of in zip(having, differences(having, alpha, seed), strict=True)}


def _most_lost(runs: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: max(run.get(name, 0) for run in runs) for name in names}


def _locks(counted: Sequence[CountedRun]) -> Locks:
    """{(lock, arm): its instances}: the most of any run, and the share of the hottest ones in the time of all runs."""
    found: dict[tuple[str, str], tuple[int, float, float]] = {}
    for run in counted:
        for one in run.totals.locks:
            most, time_us, hottest_us = found.get((one.name, run.server.arm), (0, 0.0, 0.0))
            found[one.name, run.server.arm] = (
                max(most, one.instances),
                time_us + one.time_us,
                hottest_us + one.hottest_us,
            )
    return {
        key: LockInstances(instances=most, hottest=round(hottest_us / time_us, 4))
        for key, (most, time_us, hottest_us) in found.items()
        if time_us > 0.0
    }


def _enough(table: EventTable, connection_us: float) -> NDArray[np.float64]:
    return np.full(len(table.sampled.items), LEAST_SHARE * connection_us)


def _alarm(copies: Sequence[tuple[str, _Contrasts]], alpha: float) -> CopiesDiffer | None:
    """An event, or what sessions do, that differs between the control's two copies."""
    named: list[Copies] = []
    for step, of in copies:
        named.append((step, "event", lambda item: event(item)[1], of.events))
        if of.sessions is not None:
            named.append((step, "sessions", lambda item: item[1] or item[0], of.sessions))
    return copies_alarm(named, alpha)


def _contrast(
    name: str, step: _Step, contrasts: _Contrasts, found: Mapping[int, Sequence[Difference]], claims: _Claims
) -> WaitsContrast:
    events = contrasts.events
    both = sides(events, step.events, found[id(events)], claims.waits)

    def amounts(contrast: SampledContrast | None, may_claim: bool) -> list[AmountRecord]:
        return [] if contrast is None else amount_records(contrast, found[id(contrast)], may_claim)

    metrics = amounts(contrasts.metrics, claims.metrics)
    return WaitsContrast.like(
        both,
        step=name,
        arm=events.arm,
        control=events.control,
        events=_event_records(both.items, step.locks, events.arm, events.control),
        sessions=session_records(amounts(contrasts.sessions, claims.waits)),
        metrics=metric_records(metrics),
        metrics_compared=len(metrics),
    )


def _event_records(items: Sequence[Compared], locks: Locks, arm: str, control: str) -> tuple[WaitRecord, ...]:
    events = []
    for one in items:
        kind, name, of_class = event(one.item)
        events.append(
            WaitRecord.like(
                one,
                kind=kind,
                name=name,
                of_class=of_class,
                control_us=one.control,
                arm_us=one.arm,
                low_us=one.low,
                high_us=one.high,
                control_lock=locks.get((name, control)),
                arm_lock=locks.get((name, arm)),
            )
        )
    events.sort(
        key=lambda one: (
            not one.beyond_noise,
            -(abs(one.arm_us - one.control_us) if one.beyond_noise else max(one.arm_us, one.control_us)),
        )
    )
    return tuple(events[:MOST_EVENTS])
