"""Little's law at each step, the queue at a set rate, and which resource is saturated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mydyno.language import names, tr
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Cell, Section, Table, render
from mydyno.reports.slices import StudySlices
from mydyno.reports.telemetry import readable_samples
from mydyno.results.why.queueing import (
    HOST_CPUS,
    LOAD_CPU,
    SERVER_CPU,
    ArmQueue,
    DiskReadings,
    closed_loops_of,
    closed_loops_of_runs,
    queues_of,
    queues_of_runs,
)
from mydyno.stats.queueing import ClosedLoop, Queue
from mydyno.store.samples import read_metric
from mydyno.wording.numbers import latency_text, percent, significant

RowMaker = Callable[[str, Sequence[str]], list[str | Cell]]


def build(result: StudyResult, slices: StudySlices) -> Section | None:
    """The section; None where no step has been counted."""
    experiment = result.study.experiment
    cpus = float(result.study.host.get("cpus_usable", 1))
    links = {(one.arm, one.step): one.shares["link"] for one in result.summary.limits if "link" in one.shares}
    measured = [one for step in result.steps for one in slices.of_step(step.id)]
    if result.summary.design == "interleaved":
        found = queues_of(measured, experiment.resolved_steps, experiment.instances, cpus)
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
        tr("The queue") if queues else tr("Utilisation"),
        tr("Queue") if queues else tr("Utilisation"),
        render(
            "queueing.html",
            sentences=[text for own in of_step for text in sentences(own)],
            tables=[table(step, own) for step, own in zip(steps, of_step, strict=True)],
            folded=len(steps) > 1,
        ),
        says=tr("whether the counts agree by Little's law, and how busy each resource is"),
    )


def _disks(result: StudyResult) -> dict[int, DiskReadings]:
    """{block: how busy the disk was}: each run's file has the samples of its whole block."""
    found: dict[int, DiskReadings] = {}
    for path, run in readable_samples(result).items():
        if run.block not in found:
            readings = read_metric(path, "host", "disk_util_pct")
            found[run.block] = DiskReadings([at for at, _ in readings], [min(1.0, pct / 100) for _, pct in readings])
    return found


def sentences(found: Sequence[ArmQueue]) -> list[str]:
    """Sentences for one step: first arms whose counts disagree, then one for arms with the same saturated resources."""
    suspect = [sentence(one) for one in found if one.queue.disagreement()]
    groups: dict[tuple[str, ...], list[ArmQueue]] = {}
    for one in found:
        if not one.queue.disagreement() and one.utilisations:
            groups.setdefault(one.saturated, []).append(one)
    return suspect + [sentence(of[0]) if len(of) == 1 else _together(saturated, of) for saturated, of in groups.items()]


def _together(saturated: tuple[str, ...], found: Sequence[ArmQueue]) -> str:
    arms, step = names(one.arm for one in found), found[0].step
    if saturated:
        return tr("{arm}, {step}: saturated: {resources}.", arm=arms, step=step, resources=_resources(found))
    share, name = max((share, name) for one in found for name, share in one.utilisations.items())
    return tr(
        "{arm}, {step}: no resource is saturated; the busiest is {busiest} at {share}.",
        arm=arms, step=step, busiest=tr(name), share=percent(share),
    )  # fmt: skip


def sentence(one: ArmQueue) -> str:
    """Whether the counts agree, and which resource is saturated."""
    wrong = one.queue.disagreement()
    if wrong:
        return tr(
            "{arm}, {step}: SUSPECT. The counts do not agree, so do not use them: {wrong}.",
            arm=one.arm, step=one.step, wrong=wrong,
        )  # fmt: skip
    if not one.saturated and one.utilisations:
        busiest = max(one.utilisations, key=lambda name: one.utilisations[name])
        return tr(
            "{arm}, {step}: no resource is saturated; the busiest is {busiest} at {share}.",
            arm=one.arm, step=one.step, busiest=tr(busiest), share=percent(one.utilisations[busiest]),
        )  # fmt: skip
    return tr("{arm}, {step}: saturated: {resources}.", arm=one.arm, step=one.step, resources=_resources([one]))


def _resources(found: Sequence[ArmQueue]) -> str:
    """The saturated resources, which these arms have in common; of the host's CPUs with what used them."""
    return names(
        _used_by(found) if name == HOST_CPUS else tr(name) for name in found[0].saturated
    )  # fmt: skip


def _used_by(found: Sequence[ArmQueue]) -> str:
    others = [one.others for one in found]
    if any(one is None for one in others):
        return tr(HOST_CPUS)
    mean = {name: sum(one.utilisations[name] for one in found) / len(found) for name in (SERVER_CPU, LOAD_CPU)}
    return tr(
        "CPUs of the host (server {server}, load program {load}, others {others})",
        server=percent(mean[SERVER_CPU]), load=percent(mean[LOAD_CPU]),
        others=percent(sum(one or 0.0 for one in others) / len(others)),
    )  # fmt: skip


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
                tr("utilisation: {resource}", resource=tr(name)),
                ["–" if share is None else percent(share) for share in shares],
            )
        )
    return Table(tr("{step}, means of the measured slices", step=step), ("", *(one.arm for one in found)), rows)


def _of_queues(queues: Sequence[Queue], row: RowMaker) -> list[Sequence[str | Cell]]:
    return [
        row(tr("arrival rate by the plan, per second"), [significant(one.rate_per_s, 3) for one in queues]),
        row(tr("throughput, per second"), [significant(one.throughput_per_s, 3) for one in queues]),
        row(tr("mean response time"), [_time(one.response_s) for one in queues]),
        row(tr("mean service time"), [_time(one.service_s) for one in queues]),
        row(tr("transactions in the system"), [significant(one.in_system, 3) for one in queues]),
        row(tr("of these waiting for a connection"), [significant(max(0.0, one.waiting), 2) for one in queues]),
        row(tr("busy connections"), [_busy(one) for one in queues]),
    ]


def _of_loops(loops: Sequence[ClosedLoop], row: RowMaker) -> list[Sequence[str | Cell]]:
    return [
        row(tr("throughput, per second"), [significant(one.throughput_per_s, 3) for one in loops]),
        row(tr("mean response time"), [_time(one.response_s) for one in loops]),
        row(tr("transactions under way: throughput × response time"), [_under_way(one) for one in loops]),
        row(tr("mean time between transactions"), [_time(max(0.0, one.between_s)) for one in loops]),
    ]


def _under_way(one: ClosedLoop) -> str:
    return tr(
        "{busy} of {connections} (±{resolution})",
        busy=significant(one.in_system, 3), connections=one.connections, resolution=significant(one.resolution, 2),
    )  # fmt: skip


def _busy(one: Queue) -> str:
    return tr("{busy} of {connections}", busy=significant(one.in_service, 3), connections=one.connections)


def _time(seconds: float) -> str:
    return latency_text(1e6 * seconds)
