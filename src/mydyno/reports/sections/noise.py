"""What the set-up shows where nothing was changed: A/A differences, drift over the study, and the order of runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import exp
from statistics import mean, median

from markupsafe import Markup

from mydyno.hosts.canary import READINGS
from mydyno.language import agreed
from mydyno.model.stored.summary import CanaryRecord
from mydyno.reports.charts.noise import NoiseRow, noise_chart
from mydyno.reports.charts.order import OrderPoint, order_chart
from mydyno.reports.charts.palette import ArmStyle
from mydyno.reports.charts.position import position_chart
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Cell, Figure, FigureGroup, Section, Table, legend, render
from mydyno.stats.residuals import block_residuals, order_effect_p
from mydyno.wording.numbers import display_unit, p_value, percent, percent_range, signed_percent, significant
from mydyno.wording.stored_result import ReportStep, joined_reasons


def build(result: StudyResult) -> Section:
    """Noise floor and order effect of the primary metric, and every run in the order of execution at every step."""
    metric = result.summary.primary
    ordered = result.summary.design == "blocks"  # else servers of a block are loaded in turn, again and again
    first = [_noise(result, metric), _position(result, metric) if ordered else None]
    figures = [figure for figure in first if figure]
    runs = [figure for step in result.steps if ordered and (figure := _order(result, metric, step))]
    canaries = result.summary.canaries
    groups = [
        FigureGroup(
            "The host before each block", [_canaries(canaries)] if canaries else [], text=_canary_words(canaries)
        ),
        FigureGroup("The control against itself, and the order effect", figures, text=_order_words(result, metric))
        if ordered
        else FigureGroup("The control against itself", figures),
        FigureGroup(f"{result.metric_name(metric)} of every run, in order of execution", runs),
    ]
    groups = [group for group in groups if group.figures]
    return Section(
        "noise",
        "Noise floor and order of runs" if ordered else "Noise floor",
        "Noise",
        render(
            "figures.html",
            intro="Every block runs the control twice. The difference between the copies is the noise of this "
            "set-up. Crossed-out marks are runs that are not valid.",
            legend=legend(result, with_copy=False),
            groups=groups,
            empty="" if figures or runs else "No block has two valid runs of the control, so there is no noise floor.",
        ),
        _in_one_line(result, metric),
    )


def _in_one_line(result: StudyResult, metric: str) -> str:
    """The range of the noise floors."""
    floors = [floor - 1 for floor in result.summary.noise_floor.get(metric, {}).values() if floor > 1]
    if not floors:
        return ""
    low, high = percent(min(floors)), percent(max(floors))
    return f"the control differs from its own copy by up to {high}" + ("" if low == high else f" ({low} at best)")


def _usual(canaries: Sequence[CanaryRecord]) -> dict[str, float]:
    """The median of each reading, where there is one."""
    return {
        name: median(values)
        for name in READINGS
        if (values := [value for one in canaries if (value := one.readings.get(name)) is not None])
    }


def _canary_words(canaries: Sequence[CanaryRecord]) -> str:
    ranges = []
    for name, usual in _usual(canaries).items():
        values = [value / usual - 1 for one in canaries if (value := one.readings.get(name)) is not None]
        ranges.append(f"{READINGS[name].label} {signed_percent(min(values))} to {signed_percent(max(values))}")
    off = sorted({one.block for one in canaries if one.off})
    told = (
        f"Outside the usual range before block {', '.join(map(str, off))}."
        if off
        else "None was outside the usual range."
    )
    return (
        f"Canaries read: {len(canaries)}, while nothing of the study ran, against their median: "
        f"{'; '.join(ranges)}. {told} A reading outside the usual range (beyond 3 MADs and 5 % of the earlier "
        "readings) is repeated after a pause, at most twice; the block begins after the last reading."
    )


def _canaries(canaries: Sequence[CanaryRecord]) -> Figure:
    usual = _usual(canaries)
    rows: list[list[str | Cell]] = [
        [
            str(one.block) if one.attempt == 1 else f"{one.block}, reading {one.attempt}",
            *(Cell(_against(one.readings.get(name), usual.get(name)), "num") for name in READINGS),
            ", ".join(READINGS[off.reading].label if off.reading in READINGS else off.reading for off in one.off)
            or "–",
        ]
        for one in canaries
    ]
    heads = ("block", *(reading.label for reading in READINGS.values()), "outside the usual range")
    return Figure([], Table("Canaries, relative to their median", heads, rows))


def _against(value: float | None, usual: float | None) -> str:
    return signed_percent(value / usual - 1) if value is not None and usual else "–"


def _noise(result: StudyResult, metric: str) -> Figure | None:
    control = result.summary.control
    rows: list[NoiseRow] = []
    table: list[list[str | Cell]] = []
    several = len(result.workloads) > 1
    for step in result.steps:
        ratios = result.block_ratios(metric, step.id, control, copy_number=2)
        floor = result.summary.noise_floor.get(metric, {}).get(step.id)
        if not ratios and floor is None:
            continue
        share = floor - 1 if floor is not None else None
        name = _short(step) if several else step.short_level
        shares = tuple(ratio - 1 for ratio in ratios.values())
        rows.append(NoiseRow(name, shares, share))
        spread = percent_range(min(shares), max(shares)) if shares else "–"
        table.append(
            [
                name,
                Cell(str(len(ratios)), "num"),
                Cell(spread, "num"),
                Cell(f"±{percent(share)}" if share else "–", "num"),
            ]
        )
    if not rows:
        return None
    chart = noise_chart(
        f"noise:{metric}",
        f"{result.metric_name(metric)}: the control and its copy",
        "Each dot is one block; the bracket is the noise floor, the band the declared margin.",
        result.styles[control],
        rows,
        result.margin_of(metric),
        356,
    )
    head = ("level", "blocks", "copy relative to control", "noise floor")
    return Figure([Markup(chart)], Table(f"A/A differences of {result.metric_name(metric)}", head, table))


def _short(step: ReportStep) -> str:
    return f"{step.workload.removeprefix('oltp_').replace('_', '-')}, {step.amount_text}"


def _position(result: StudyResult, metric: str) -> Figure | None:
    points = residuals(result, metric)
    if len({position for position, _, _ in points}) < 2 or len(result.plan.blocks) < 2:
        return None
    by_position: dict[int, list[float]] = defaultdict(list)
    for position, residual, _ in points:
        by_position[position].append(residual)
    chart = position_chart(
        f"position:{metric}",
        f"{result.metric_name(metric)}: effect of the position in a block",
        "The residual of every valid run after removing its arm's and its block's level, by position in the block.",
        points,
    )
    rows: list[list[str | Cell]] = [
        [str(position), Cell(signed_percent(mean(values)), "num"), Cell(str(len(values)), "num")]
        for position, values in sorted(by_position.items())
    ]
    table = Table("Order effect: mean residual by position in the block", ("position", "mean", "values"), rows)
    return Figure([Markup(chart)], table)


def residuals(result: StudyResult, metric: str) -> list[tuple[int, float, ArmStyle]]:
    """(position, share, arm's style) of every valid run and step, free of the arm's and the block's level."""
    points = []
    for step in result.steps:
        runs = {
            (run.block, f"{run.arm} {run.copy_number}"): (run, value)
            for run, value, used in result.values(metric, step.id)
            if used and value > 0 and run.arm in result.styles
        }
        for one in block_residuals({cell: value for cell, (_, value) in runs.items()}):
            run, _ = runs[one.block, one.arm]
            points.append((run.position, exp(one.residual) - 1, result.styles[run.arm]))
    return points


def _order_words(result: StudyResult, metric: str) -> str:
    """The order effect's test at every step, in one sentence."""
    tests = {}
    for step in result.steps:
        runs = [
            (run.block, run.arm, run.position, value)
            for run, value, used in result.values(metric, step.id)
            if used and value > 0
        ]
        p = order_effect_p(runs)
        if p is not None:
            tests[step.id] = p
    if not tests:
        return "There are too few runs to test the order effect."
    where, least = min(tests.items(), key=lambda item: item[1])
    bound = 0.05 / len(tests)
    place = "below" if least < bound else "not below"
    return agreed(
        f"Order effect, F test of the position in addition to arm and block: the smallest p of {len(tests)} "
        f"levels is {p_value(least)} ({where}), {place} {significant(bound, 2)} (0.05 shared among the levels)."
    )


def _order(result: StudyResult, metric: str, step: ReportStep) -> Figure | None:
    place = {(run.block, run.position): index for index, run in enumerate(result.plan.runs, 1)}
    values = list(result.values(metric, step.id))
    if not values:
        return None
    unit = display_unit(metric, max(abs(value) for _, value, _ in values))
    points = [
        OrderPoint(
            place.get((run.block, run.position), index),
            run.block,
            value,
            result.styles[run.arm],
            used,
            f"block {run.block}, position {run.position}, {run.arm}"
            + (" (A/A copy)" if run.copy_number == 2 else "")
            + ": "
            + unit.text(value, 4)
            + ("" if used else f"; not valid: {joined_reasons(run, step.id)}"),
        )
        for index, (run, value, used) in enumerate(values, 1)
        if run.arm in result.styles
    ]
    heading = f"{_short(step)}" if len(result.workloads) > 1 else step.short_level
    chart = order_chart(
        f"order:{metric}:{step.id}",
        f"{result.metric_name(metric)}, {heading}",
        agreed(f"{len(points)} runs in order of execution; the order inside every block was drawn at random."),
        unit,
        points,
        {block.block: len(block.runs) for block in result.plan.blocks},
    )
    return Figure([Markup(chart)])
