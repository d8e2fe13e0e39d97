"""Every slice of an interleaved study over time, with the host's speed and steal on the same time axis."""

from __future__ import annotations

from markupsafe import Markup

from mydyno.language import agreed
from mydyno.model.definition.quantities import format_duration
from mydyno.model.stored.summary import InterleavingRecord
from mydyno.reports.charts.palette import ArmStyle, copy_style
from mydyno.reports.charts.slices import HostLine, SlicePoint, slices_chart
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Figure, FigureGroup, Section, legend, render
from mydyno.reports.slices import StudySlices, driver_cost, rate
from mydyno.wording.interference import interference_sentences
from mydyno.wording.numbers import display_unit, percent
from mydyno.wording.stored_result import ReportStep

MOST_MARKS = 8000
SIZES = (("", 1120.0), (":narrow", 356.0))


def build(result: StudyResult, slices: StudySlices) -> Section | None:
    """The section, or None for a study of blocks."""
    if result.summary.design == "blocks":
        return None
    figures = [figure for step in result.steps if (figure := _figure(result, slices, step))]
    return Section(
        "slices",
        "Slices over time",
        "Slices",
        render(
            "figures.html",
            intro=_intro(result.summary.interleaving, result.summary.control)
            + (
                f" Only one cycle in {every} is drawn, to limit the size of the page."
                if (every := drawn_every(slices)) > 1
                else ""
            )
            + (f" Missing: {slices.missing}." if slices.missing else ""),
            legend=legend(result, with_copy=True),
            groups=[FigureGroup(_heading(result), figures)] if figures else [],
            empty="" if figures else "No block has slices.",
        ),
    )


def drawn_every(slices: StudySlices) -> int:
    """Every which cycle has marks, the same for all arms: a page has room for MOST_MARKS of a study."""
    return max(1, -(-sum(len(slices.of_step(step)) for step in slices.segments) // MOST_MARKS))


def _heading(result: StudyResult) -> str:
    return f"{result.metric_name(_metric(result))} of each slice, and the host below"


def _metric(result: StudyResult) -> str:
    return result.summary.primary if result.summary.primary in ("qps", "tps", "ops", "tpmc") else "qps"


def _intro(interleaving: InterleavingRecord | None, control: str) -> str:
    words = "Each dot is one slice: a few seconds of load on one server, while the others wait."
    if interleaving is None:
        return words
    words = agreed(
        f"Each dot is one slice: {interleaving.slice_s:g} s of load on one server after "
        f"{interleaving.washout_s:g} s of washout, while the others wait. {interleaving.cycles} cycles in random "
        "order"
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
    if interleaving.strangers_mean is not None:
        words += f" CPU time used by other programs: {percent(interleaving.strangers_mean)}."
    return " ".join([words, *interference_sentences(interleaving, control)])


def _figure(result: StudyResult, slices: StudySlices, step: ReportStep) -> Figure | None:
    segments = slices.segments.get(step.id, ())
    metric = _metric(result)
    control = result.summary.control
    points = []
    every = drawn_every(slices)
    for segment in segments:
        for one in (one for one in segment.slices if (one.cycle - 1) % every == 0):
            value, style = rate(one, metric), _style(result, one.arm, one.copy_number, control)
            if value is not None and style is not None:
                points.append(SlicePoint(segment.at(one), value, style))
    if not points:
        return None
    unit = display_unit(metric, max(point.value for point in points))
    lines = _host_lines(slices, step)
    blocks = [(segment.block, segment.begins_s, segment.ends_s) for segment in segments]
    charts = [
        Markup(
            slices_chart(
                f"slices:{step.id}{suffix}",
                f"{result.metric_name(metric)}, {step.workload}, {step.short_level}" if width > 480 else step.workload,
                agreed(f"{len(points)} slices in {len(segments)} blocks."),
                unit,
                points,
                lines,
                blocks,
                width,
            )
        )
        for suffix, width in SIZES
    ]
    return Figure(charts, None, "", "full")


def _style(result: StudyResult, arm: str, copy_number: int, control: str) -> ArmStyle | None:
    if arm == control and copy_number == 2:
        return copy_style(result.styles[control])
    return result.styles.get(arm)


def _host_lines(slices: StudySlices, step: ReportStep) -> list[HostLine]:
    """The host in the same slices: the load program's CPU per query, the speed meter, steal."""
    segments = slices.segments[step.id]
    ordered = slices.of_step(step.id)
    cost = driver_cost(ordered)
    found: dict[str, list[list[tuple[float, float]]]] = {"cost": [], "speed": [], "steal": []}
    usual = sorted(one.speed for one in ordered if one.speed)
    index = 0
    for segment in segments:
        for series in found.values():
            series.append([])
        for one in segment.slices:
            at = segment.at(one)
            if index in cost:
                found["cost"][-1].append((at, cost[index]))
            if one.speed:
                found["speed"][-1].append((at, one.speed / usual[len(usual) // 2]))
            if one.steal is not None:
                found["steal"][-1].append((at, one.steal))
            index += 1
    slower = "relative to its median; a slower host is higher"
    headings = {
        "cost": ("Load program's CPU per query", slower),
        "speed": ("Speed meter", slower),
        "steal": ("Steal", "%"),
    }
    return [
        HostLine(heading, found[name], unit, percent=name == "steal")
        for name, (heading, unit) in headings.items()
        if any(found[name])
    ]
