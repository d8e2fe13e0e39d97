"""Every slice, or run at a load level, over the time of the blocks, and what else used the CPUs; over the same time
memory, disk and InnoDB, or, of runs, all telemetry in the explorer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from markupsafe import Markup

from mydyno.document.drawing import ArmStyle, Linear, Svg, copy_style, tick_decimals, tick_text, value_ticks
from mydyno.document.parts import Figure, FigureGroup, Figures, Fold, Note, Part, legend, render
from mydyno.document.result import BlockTime, StudyResult, StudySlices, rate
from mydyno.language import agreed
from mydyno.model.definition.quantities import format_duration
from mydyno.model.stored.records import SliceRecord
from mydyno.model.stored.summary import RunSummary, Summary
from mydyno.reports.sections.trust import interference_sentences
from mydyno.reports.telemetry import Telemetry
from mydyno.store.samples import read_metric
from mydyno.wording.numbers import DisplayUnit, display_unit, percent

WIDTH, LEFT, RIGHT = 1120.0, 60.0, 8.0
HEADING, GAP, BOTTOM = 26.0, 10.0, 40.0
FEW = 250
"""Below so many marks they are larger."""
MANY = 800
"""Beyond so many marks all arms have dots, in their colours: shapes could not be distinguished, and take room."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A value of one arm at a second of the axis."""

    at_s: float
    value: float
    style: ArmStyle


@dataclass(frozen=True, slots=True)
class ClockPanel:
    """One quantity: marks of arms, or strokes from zero of what is the host's."""

    heading: str
    unit: DisplayUnit
    height: float
    marks: Sequence[Mark] = ()
    strokes: Sequence[tuple[float, float]] = ()
    css: str = "stroke"


def clock_chart(
    key: str, title: str, description: str, panels: Sequence[ClockPanel], blocks: Sequence[tuple[int, float, float]]
) -> str:
    """The panels below each other; `blocks` are (number, first second, last second), shaded and named below."""
    height = sum(HEADING + panel.height + GAP for panel in panels) + BOTTOM
    svg = Svg(key, WIDTH, height, title, description)
    x = Linear(0, blocks[-1][2] if blocks else 1.0, LEFT, WIDTH - RIGHT)
    top = 0.0
    for panel in panels:
        ends = (top + HEADING, top + HEADING + panel.height)
        for _, from_s, to_s in blocks:
            svg.rect(x(from_s), ends[0], x(to_s) - x(from_s), panel.height, "stripe")
        _draw_panel(svg, x, panel, ends)
        top = ends[1] + GAP
    last = -1e9
    for block, from_s, to_s in blocks:
        middle = (x(from_s) + x(to_s)) / 2
        if middle - last > 22:
            svg.text(middle, top + 8, str(block), "t num", "middle")
            last = middle
    svg.text((LEFT + WIDTH - RIGHT) / 2, height - 4, f"block (each about {_length(blocks)})", "t soft", "middle")
    return svg.render()


def _length(blocks: Sequence[tuple[int, float, float]]) -> str:
    length = sum(to_s - from_s for _, from_s, to_s in blocks) / max(1, len(blocks))
    return f"{length:.0f} s" if length < 120 else f"{length / 60:.0f} min"


def _draw_panel(svg: Svg, x: Linear, panel: ClockPanel, ends: tuple[float, float]) -> None:
    svg.text(0, ends[0] - 9, panel.heading, "t strong")
    svg.text(WIDTH - RIGHT, ends[0] - 9, panel.unit.label, "t soft", "end")
    values = [one.value for one in panel.marks] or [value for _, value in panel.strokes]
    ticks = value_ticks([value / panel.unit.divisor for value in values], 5 if panel.height > 120 else 3,
                        from_zero=bool(panel.strokes))  # fmt: skip
    y = Linear(ticks[0] * panel.unit.divisor, ticks[-1] * panel.unit.divisor, ends[1], ends[0])
    decimals = tick_decimals(ticks)
    for tick in ticks:
        at = y(tick * panel.unit.divisor)
        svg.line(LEFT, at, WIDTH - RIGHT, at, "zero" if tick == 0 else "grid")
        svg.text(LEFT - 6, at + 4, tick_text(tick, decimals), "t num", "end")
    radius = 3.2 if len(panel.marks) < FEW else 2.3
    styles = {(mark.style.name, mark.style.copy): mark.style for mark in panel.marks}
    for (name, copy), style in styles.items():
        own = [(x(m.at_s), y(m.value)) for m in panel.marks if (m.style.name, m.style.copy) == (name, copy)]
        svg.open_group(style.css)
        if len(panel.marks) > MANY:
            svg.marks("dot", own, radius, "dot")
        else:
            svg.marks(style.shape, own, radius, "ring" if copy else "slice")
        svg.close_group()
    strokes = [(f"{x(at):.1f}", y(value)) for at, value in panel.strokes if ends[1] - y(value) > 0.4]
    svg.path("".join(f"M{at} {ends[1]:.0f}V{to:.1f}" for at, to in strokes), panel.css)


INTRO = (
    "Lines are the median over an arm's valid runs, bands reach from the least to the greatest value of any of them; "
    "the control's second copy is the thin dotted line. Shaded time is outside the measured window."
)


def build_explorer(telemetry: Telemetry) -> Part:
    """The explorer, which needs a script."""
    names = [Note(f"{heading}: {names}.") for heading, names in _lists(telemetry)]
    drawn = render("explorer.html") if telemetry.panels else None
    empty = Note("" if drawn else "No run has telemetry.", "empty")
    body = [Note(INTRO, "intro"), *_notes(telemetry), Fold("Series that are not drawn", names), empty, drawn]
    return Part(id="telemetry", heading="Telemetry over time", body=body)


def _notes(telemetry: Telemetry) -> list[Note]:
    notes = []
    if telemetry.invalid:
        steps = "; ".join([f"{step}: {', '.join(arms)}" for step, arms in telemetry.invalid.items()])
        notes.append(f"Drawn from invalid runs, for diagnosis, because no run is valid: {steps}.")
    if telemetry.missing_files:
        notes.append(agreed(f"{telemetry.missing_files} runs have no readable samples.parquet in the study folder."))
    widths = sorted(set(telemetry.widths_s.values()))
    if widths and widths[-1] > 1:
        notes.append(f"To keep this page small a point stands for up to {widths[-1]:g} s; the band keeps the extremes.")
    return [*map(Note, notes)]


def _lists(telemetry: Telemetry) -> list[tuple[str, str]]:
    """(heading, names) of the series that are not drawn."""
    lists = [
        (
            agreed(f"{len(telemetry.left_out)} series {'is' if len(telemetry.left_out) == 1 else 'are'} only in "
                "samples.parquet, to limit the size of the page"),
            telemetry.left_out,
        ),
        (
            f"{len(telemetry.constant)} series {'is' if len(telemetry.constant) == 1 else 'are'} zero in every sample",
            telemetry.constant,
        ),
    ]  # fmt: skip
    return [(heading, ", ".join(series)) for heading, series in lists if series]


T = TypeVar("T")
MOST_MARKS = 3000
"""Marks of slices of a study, or samples of a panel, that the page has room for."""
TALL, LOW, SMALL = 190.0, 120.0, 64.0
PERCENT = DisplayUnit(1.0, "%")
OF_ARMS = ("innodb_checkpoint_age_bytes", "innodb_dirty_pages_pct")
OF_HOST = ("disk_write_bytes_per_s", "disk_util_pct")


def build_slices(result: StudyResult) -> Part | None:
    """The section, or None for a study of statements, whose slices are sums, and for runs without a load."""
    if result.study.experiment.compares_statements:
        return None
    slices, panels, of_runs = result.slices, _load_panels(result), result.summary.design == "blocks"
    if of_runs and not panels:
        return None
    groups = [FigureGroup("", [_figure(slices, "clock", _title(result), panels)])] if panels else []
    if panels and not of_runs and (resources := _resource_panels(result)):
        name = "Memory, CPU, disk and InnoDB over the same time"
        figure = _figure(slices, "clock:resources", name, resources)
        groups.append(FigureGroup(name, [figure], folded=True))
    every = drawn_every(slices)
    intro = _intro(result.summary)
    intro += f" Only one cycle in {every} is drawn, to limit the size of the page." if every > 1 else ""
    intro += f" Missing: {slices.missing}." if slices.missing else ""
    drawn = Figures(groups, legend(result, with_copy=True)) if groups else Note("No block has slices.", "empty")
    return Part(id="slices", heading=_title(result), body=[Note(intro, "intro"), drawn])


def drawn_every(slices: StudySlices) -> int:
    """Every which cycle has marks, the same for all arms: a page has room for MOST_MARKS of a study."""
    return max(1, -(-sum(map(len, slices.by_step.values())) // MOST_MARKS))


def _title(result: StudyResult) -> str:
    title = f"{result.metric_name(_metric(result))} of each {'run' if result.summary.design == 'blocks' else 'slice'}"
    known = [one.strangers for of in result.slices.by_step.values() for one in of if one.strangers is not None]
    return f"{title}; other programs used {percent(fmean(known))} of the CPU time" if known else title


def _metric(result: StudyResult) -> str:
    return result.summary.primary if result.summary.primary in ("qps", "tps", "ops", "tpmc") else "qps"


def _intro(summary: Summary) -> str:
    interleaving = summary.interleaving
    if summary.design == "blocks":
        return "Each mark is one run at one load level, the mean of its measured window."
    where = "under one arm's settings" if summary.design == "switchback" else "on one server, while the others wait"
    if interleaving is None:
        return f"Each mark is one slice: a few seconds of load {where}."
    words = agreed(
        f"Each mark is one slice: {interleaving.slice_s:g} s of load {where}, after {interleaving.washout_s:g} s of "
        f"washout. {interleaving.cycles} cycles in random order"
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
    return " ".join([words, *interference_sentences(interleaving, summary.control)])


def _figure(slices: StudySlices, key: str, title: str, panels: Sequence[ClockPanel]) -> Figure:
    blocks = [(one.block, one.begins_s, one.ends_s) for one in slices.blocks.values()]
    description = agreed(f"{', '.join(panel.heading for panel in panels)} over {len(blocks)} blocks.")
    chart = Markup('<div class="scroll" tabindex="0" role="region" aria-label="{}">{}</div>').format(
        title, Markup(clock_chart(key, title, description, panels, blocks))
    )
    return Figure([chart], css="full clock")


def _load_panels(result: StudyResult) -> list[ClockPanel]:
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
            panels.append(ClockPanel(f"{result.metric_name(metric)}, {result.step_heading(step)}", unit, height, marks))
    if not panels:
        return []
    panels += _strokes(slices, "CPU time of other programs", lambda one: _pct(one.strangers))
    panels += _strokes(slices, "Steal", lambda one: one.rates.get("cpu_steal_pct", _pct(one.steal)), "stroke alarm")
    return panels


def _resource_panels(result: StudyResult) -> list[ClockPanel]:
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
            panels.append(ClockPanel(result.metric_name(metric), unit, SMALL, strokes=strokes))
    for metric in OF_ARMS:
        marks = []
        for path, run in samples:
            style = _style(result, run)
            found_of = _placed(slices.blocks[run.block], read_metric(path, "instance:1", metric)) if style else []
            marks += [Mark(at, value, style) for at, value in found_of if style]
        panels += _panel(result.metric_name(metric), metric, _thinned(marks))
    return panels


def _panel(heading: str, metric: str, marks: Sequence[Mark]) -> list[ClockPanel]:
    largest = max((mark.value for mark in marks), default=0.0)
    return [ClockPanel(heading, display_unit(metric, largest), LOW, marks)] if largest else []


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
) -> list[ClockPanel]:
    """A panel of what every slice knows of the host; none where no slice has more than 0."""
    found = [(slices.at(one), pct) for of in slices.by_step.values() for one in of if (pct := value(one)) is not None]
    return (
        [ClockPanel(heading, PERCENT, SMALL, strokes=_thinned(sorted(found)), css=css)]
        if any(p for _, p in found)
        else []
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
