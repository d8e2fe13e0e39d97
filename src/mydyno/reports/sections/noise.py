"""What the set-up shows where nothing was changed: the control against its own copy."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from markupsafe import Markup

from mydyno.hosts.canary import READINGS
from mydyno.model.stored.summary import CanaryRecord
from mydyno.reports.charts.noise import NoiseRow, noise_chart
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Cell, Figure, FigureGroup, Section, Table, render
from mydyno.wording.interference import adjustment_sentence
from mydyno.wording.numbers import percent, percent_range, signed_percent
from mydyno.wording.stored_result import ReportStep
from mydyno.wording.verdict_table import verdict_table


def build(result: StudyResult) -> Section:
    """Noise floor of the primary metric at every step."""
    metric = result.summary.primary
    found = _noise(result, metric)
    canaries = result.summary.canaries
    groups = [
        FigureGroup(
            "The host before each block",
            [_canaries(canaries)] if canaries else [],
            text=_canary_words(canaries) if canaries else "",
        ),
        FigureGroup("The control against itself", [found] if found else []),
        FigureGroup("The adjustment for the host's speed", [], text=_adjustment(result)),
    ]
    groups = [group for group in groups if group.figures or group.text]
    return Section(
        "noise",
        "Noise floor",
        "Noise",
        render(
            "figures.html",
            intro="Every block runs the control twice. The difference between the copies is the noise of this set-up.",
            legend="",
            groups=groups,
            empty="" if found else "No block has two valid runs of the control, so there is no noise floor.",
        ),
        _in_one_line(result, metric),
    )


def _adjustment(result: StudyResult) -> str:
    """What values are adjusted for, and the effects without it; empty where nothing is adjusted."""
    table = verdict_table(result)
    if result.summary.interleaving is None or table is None or not table.unadjusted:
        return ""
    return " ".join((adjustment_sentence(result.summary.interleaving), table.unadjusted))


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
    return Figure(
        [Markup(chart)], Table(f"A/A differences of {result.metric_name(metric)}", head, table), numbers_open=True
    )


def _short(step: ReportStep) -> str:
    return f"{step.workload.removeprefix('oltp_').replace('_', '-')}, {step.amount_text}"
