"""Little's law at each step, the queue at a set rate, and which resource is saturated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Section, Table, render
from mydyno.results.why.queueing import (
    ArmQueue,
    DiskReadings,
    closed_loops_of,
    closed_loops_of_runs,
    in_order,
    queues_of,
    queues_of_runs,
)
from mydyno.stats.queueing import ClosedLoop, Queue
from mydyno.store.samples import read_metric
from mydyno.wording.numbers import latency_text, percent, significant
from mydyno.wording.queueing import sentences

RowMaker = Callable[[str, Sequence[str]], list[str | Cell]]


def build(result: StudyResult) -> Section | None:
    """The section; None where no step has been counted."""
    experiment = result.study.experiment
    cpus = float(result.study.host.get("cpus_usable", 1))
    links = {(one.arm, one.step): one.shares["link"] for one in result.summary.limits if "link" in one.shares}
    measured = [one for step in result.steps for one in result.slices.of_step(step.id)]
    if result.summary.design != "blocks":
        found = in_order(queues_of(measured, experiment.resolved_steps, experiment.instances, cpus), experiment)
        found += closed_loops_of(measured, experiment, cpus, _disks(result), links)
    else:
        runs = [(result.records[one.folder], one) for one in result.runs if one.folder in result.records]
        found = queues_of_runs(runs, experiment, cpus, links) + closed_loops_of_runs(runs, experiment, cpus, links)
    if not found:
        return None
    steps = [step.id for step in experiment.resolved_steps if any(one.step == step.id for one in found)]
    of_step = [[one for one in found if one.step == step] for step in steps]
    queues = any(isinstance(one.queue, Queue) for one in found)
    return Section(
        "queueing",
        "The queue" if queues else "Utilisation",
        "Queue" if queues else "Utilisation",
        render(
            "queueing.html",
            sentences=[text for own in of_step for text in sentences(own)],
            tables=[table(step, own) for step, own in zip(steps, of_step, strict=True)],
        ),
        says="whether the counts agree by Little's law, and how busy each resource is",
    )


def _disks(result: StudyResult) -> dict[int, DiskReadings]:
    """{block: how busy the disk was}: each run's file has the samples of its whole block."""
    found: dict[int, DiskReadings] = {}
    for path, run in result.samples.items():
        if run.block not in found:
            readings = read_metric(path, "host", "disk_util_pct")
            found[run.block] = DiskReadings([at for at, _ in readings], [min(1.0, pct / 100) for _, pct in readings])
    return found


def table(step: str, found: Sequence[ArmQueue]) -> Table:
    """The figures of one step, a column for each arm."""

    def row(name: str, texts: Sequence[str]) -> list[str | Cell]:
        return [name, *(Cell(text, "num") for text in texts)]

    queues = [one.queue for one in found if isinstance(one.queue, Queue)]
    loops = [one.queue for one in found if isinstance(one.queue, ClosedLoop)]
    rows: list[Sequence[str | Cell]] = [] if queues else _of_loops(loops, row)
    if queues:
        rows += _of_queues(queues, row)
    for name in dict.fromkeys(name for one in found for name in one.utilisations):
        shares = [one.utilisations.get(name) for one in found]
        rows.append(
            row(
                f"utilisation: {name}",
                ["–" if share is None else percent(share) for share in shares],
            )
        )
    return Table(f"{step}, means of the measured slices", ("", *(one.arm for one in found)), rows)


def _of_queues(queues: Sequence[Queue], row: RowMaker) -> list[Sequence[str | Cell]]:
    return [
        row("arrival rate by the plan, per second", [significant(one.rate_per_s, 3) for one in queues]),
        row("mean response time", [_time(one.response_s) for one in queues]),
        row("mean service time", [_time(one.service_s) for one in queues]),
        row("transactions in the system", [significant(one.in_system, 3) for one in queues]),
        row("of these waiting for a connection", [significant(max(0.0, one.waiting), 2) for one in queues]),
        row("busy connections", [_busy(one) for one in queues]),
    ]


def _of_loops(loops: Sequence[ClosedLoop], row: RowMaker) -> list[Sequence[str | Cell]]:
    return [
        row("transactions under way: throughput × response time", [_under_way(one) for one in loops]),
    ]


def _under_way(one: ClosedLoop) -> str:
    return f"{significant(one.in_system, 3)} of {one.connections} (±{significant(one.resolution, 2)})"


def _busy(one: Queue) -> str:
    return f"{significant(one.in_service, 3)} of {one.connections}"


def _time(seconds: float) -> str:
    return latency_text(1e6 * seconds)
