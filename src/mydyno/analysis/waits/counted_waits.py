"""What was counted of the waits of each run at each step, read from the study folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.records import RunRecord
from mydyno.model.stored.summary import RunSummary
from mydyno.model.stored.waits import CLIENT, EventTotal, WaitKind, WaitTotals, wait_class
from mydyno.results.why.event_tables import Counted, Item, counted_by_step
from mydyno.store.slices import read_totals

Event = tuple[WaitKind, str, str]
"""(kind, name, class); of a class as a whole, ("wait", its name, "")."""
CountedRun = Counted[WaitTotals]


def counted_runs(
    folder: Path, experiment: Experiment, runs: Sequence[RunRecord], summaries: Sequence[RunSummary]
) -> dict[str, list[CountedRun]]:
    """{step: what was counted of the runs that count there}."""
    found = counted_by_step(folder, experiment, runs, summaries, lambda run: run.waits, _read, _items)
    return {step: [_with_client(run) for run in of_step] for step, of_step in found.items()}


def event(item: Item) -> Event:
    """An item of these tables."""
    assert isinstance(item, tuple)
    return item


def _read(path: Path) -> WaitTotals:
    return read_totals(path, WaitTotals)


def _with_client(run: CountedRun) -> CountedRun:
    """With the time outside of statements; nothing is added where no statements were counted."""
    statements = run.totals.statements
    count = sum(one.count for one in statements)
    if not count:
        return run
    outside_us = run.connection_us * run.totals.transactions - sum(one.time_us for one in statements)
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
