"""An interleaved study over the time of its blocks: every slice, what else used the CPUs, memory, disk and InnoDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from markupsafe import Markup

from mydyno.document.charts.clock import Mark, Panel, clock_chart
from mydyno.document.charts.drawing import ArmStyle, copy_style
from mydyno.document.parts import Figures, Note, Part
from mydyno.document.result import BlockTime, StudyResult, StudySlices, rate
from mydyno.document.section import Figure, FigureGroup, legend
from mydyno.language import agreed
from mydyno.model.definition.quantities import format_duration
from mydyno.model.stored.records import SliceRecord
from mydyno.model.stored.summary import InterleavingRecord, RunSummary
from mydyno.store.samples import read_metric
from mydyno.wording.interference import interference_sentences
from mydyno.wording.numbers import DisplayUnit, display_unit, percent

T = TypeVar("T")
MOST_MARKS = 3000
"""Marks of slices of a study, or samples of a panel, that the page has room for."""
TALL, LOW, SMALL = 190.0, 120.0, 64.0
PERCENT = DisplayUnit(1.0, "%")
OF_ARMS = ("innodb_checkpoint_age_bytes", "innodb_dirty_pages_pct")
OF_HOST = ("disk_write_bytes_per_s", "disk_util_pct")


def build(result: StudyResult) -> Part | None:
    """The section, or None for a study of blocks, and for one of statements, whose slices are sums."""
    if result.summary.design == "blocks" or result.study.experiment.compares_statements:
        return None
    slices = result.slices
    panels = _load_panels(result)
    groups = [FigureGroup("", [_figure(slices, "clock", _title(result), panels)])] if panels else []
    if panels and (resources := _resource_panels(result)):
        name = "Memory, CPU, disk and InnoDB over the same time"
        figure = _figure(slices, "clock:resources", name, resources)
        groups.append(FigureGroup(name, [figure], folded=True))
    every = drawn_every(slices)
    intro = _intro(result.summary.interleaving, result.summary.control)
    intro += f" Only one cycle in {every} is drawn, to limit the size of the page." if every > 1 else ""
    intro += f" Missing: {slices.missing}." if slices.missing else ""
    drawn = Figures(groups, legend(result, with_copy=True)) if groups else Note("No block has slices.", "empty")
    return Part(id="slices", heading=_title(result), body=[Note(intro, "intro"), drawn])


def drawn_every(slices: StudySlices) -> int:
    """Every which cycle has marks, the same for all arms: a page has room for MOST_MARKS of a study."""
    return max(1, -(-sum(map(len, slices.by_step.values())) // MOST_MARKS))


def _title(result: StudyResult) -> str:
    name = result.metric_name(_metric(result))
    interleaving = result.summary.interleaving
    if interleaving is None or interleaving.strangers_mean is None:
        return f"{name} of each slice"
    return f"{name} of each slice; other programs used {percent(interleaving.strangers_mean)} of the CPU time"


def _metric(result: StudyResult) -> str:
    return result.summary.primary if result.summary.primary in ("qps", "tps", "ops", "tpmc") else "qps"


def _intro(interleaving: InterleavingRecord | None, control: str) -> str:
    words = "Each mark is one slice: a few seconds of load on one server, while the others wait."
    if interleaving is None:
        return words
    words = agreed(
        f"Each mark is one slice: {interleaving.slice_s:g} s of load on one server after {interleaving.washout_s:g} s "
        f"of washout, while the others wait. {interleaving.cycles} cycles in random order"
    )
    words += (
        f"; {interleaving.dropped_cycles} of them were dropped for all arms, because of unequal steal."
        if interleaving.dropped_cycles
        else "; none was dropped."
    )
    if interleaving.waited_s >= 1:
        words += f" Time waited for a quieter host: {format_duration(interleaving.waited_s)}."
    if interleaving.steal_mean is not None:
        words += f" Mean steal: {percent(interleaving.steal_mean)}."
    return " ".join([words, *interference_sentences(interleaving, control)])


def _figure(slices: StudySlices, key: str, title: str, panels: Sequence[Panel]) -> Figure:
    blocks = [(one.block, one.begins_s, one.ends_s) for one in slices.blocks.values()]
    description = agreed(f"{', '.join(panel.heading for panel in panels)} over {len(blocks)} blocks.")
    chart = Markup('<div class="scroll" tabindex="0" role="region" aria-label="{}">{}</div>').format(
        title, Markup(clock_chart(key, title, description, panels, blocks))
    )
    return Figure([chart], css="full clock")


def _load_panels(result: StudyResult) -> list[Panel]:
    """The rate of every slice, a panel for each step, and what took CPU time from them."""
    slices = result.slices
    metric, every = _metric(result), drawn_every(slices)
    panels = []
    for step in result.steps:
        found = [one for one in slices.of_step(step.id) if (one.cycle - 1) % every == 0]
        marks = _marks(result, slices, found, lambda one: rate(one, metric))
        if marks:
            height = TALL if len(slices.by_step) == 1 else LOW
            unit = display_unit(metric, max(mark.value for mark in marks))
            panels.append(Panel(f"{result.metric_name(metric)}, {result.step_heading(step)}", unit, height, marks))
    if not panels:
        return []
    panels += _strokes(slices, "CPU time of other programs", lambda one: _pct(one.strangers))
    panels += _strokes(slices, "Steal", lambda one: _pct(one.steal), "stroke alarm")
    return panels


def _resource_panels(result: StudyResult) -> list[Panel]:
    """Memory of each arm, the host's CPU and disk, and what InnoDB has still to write."""
    slices = result.slices
    every = drawn_every(slices)
    ordered = [one for found in slices.by_step.values() for one in found if (one.cycle - 1) % every == 0]
    panels = []
    for heading, value in (
        ("Resident memory of the server", lambda one: one.server_rss_bytes),
        ("Virtual memory of the server", lambda one: one.server_vsize_bytes),
    ):
        marks = _marks(result, slices, ordered, value)
        panels += _panel(heading, "server_rss_bytes", marks)
    panels += _strokes(slices, "CPU of the host, user", lambda one: one.rates.get("cpu_user_pct"))
    panels += _strokes(slices, "I/O wait", lambda one: one.rates.get("cpu_iowait_pct"))
    samples = [(path, run) for path, run in result.samples.items() if run.block in slices.blocks]
    for metric in OF_HOST:
        first = {run.block: path for path, run in reversed(samples)}
        found = [(slices.blocks[block], read_metric(path, "host", metric)) for block, path in first.items()]
        strokes = _thinned([pair for block, values in found for pair in _placed(block, values)])
        if any(value for _, value in strokes):
            unit = display_unit(metric, max(value for _, value in strokes))
            panels.append(Panel(result.metric_name(metric), unit, SMALL, strokes=strokes))
    for metric in OF_ARMS:
        marks = []
        for path, run in samples:
            style = _style(result, run)
            found_of = _placed(slices.blocks[run.block], read_metric(path, "instance:1", metric)) if style else []
            marks += [Mark(at, value, style) for at, value in found_of if style]
        panels += _panel(result.metric_name(metric), metric, _thinned(marks))
    return panels


def _panel(heading: str, metric: str, marks: Sequence[Mark]) -> list[Panel]:
    largest = max((mark.value for mark in marks), default=0.0)
    return [Panel(heading, display_unit(metric, largest), LOW, marks)] if largest else []


def _marks(
    result: StudyResult, slices: StudySlices, found: Iterable[SliceRecord], value: Callable[[SliceRecord], float | None]
) -> list[Mark]:
    marks = []
    for one in found:
        number, style = value(one), _style(result, one)
        if number is not None and style is not None:
            marks.append(Mark(slices.at(one), number, style))
    return marks


def _strokes(
    slices: StudySlices, heading: str, value: Callable[[SliceRecord], float | None], css: str = "stroke"
) -> list[Panel]:
    """A panel of what every slice knows of the host; none where no slice has more than 0."""
    found = [(slices.at(one), pct) for of in slices.by_step.values() for one in of if (pct := value(one)) is not None]
    return (
        [Panel(heading, PERCENT, SMALL, strokes=_thinned(sorted(found)), css=css)] if any(p for _, p in found) else []
    )


def _pct(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _placed(block: BlockTime, values: Iterable[tuple[int, float]]) -> list[tuple[float, float]]:
    """Samples of one block's loaded time on the axis."""
    placed = [(block.at(unix_ns), value) for unix_ns, value in values]
    return [(at, value) for at, value in placed if block.begins_s <= at <= block.ends_s]


def _thinned(found: Sequence[T]) -> list[T]:
    return list(found[:: max(1, -(-len(found) // (MOST_MARKS // 2)))])


def _style(result: StudyResult, one: SliceRecord | RunSummary) -> ArmStyle | None:
    style = result.styles.get(one.arm)
    return copy_style(style) if style is not None and one.copy_number == 2 else style
