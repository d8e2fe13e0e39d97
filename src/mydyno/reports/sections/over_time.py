"""Telemetry over time: the explorer's data, the still pictures beside it, and resident memory over whole runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import median

from markupsafe import Markup

from mydyno.language import agreed
from mydyno.model.definition.quantities import format_duration
from mydyno.reports.charts.palette import copy_style
from mydyno.reports.charts.timeline import TimeSeries, timeline_chart
from mydyno.reports.envelopes import Panel, Series
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Cell, Figure, FigureGroup, Section, Table, legend, render
from mydyno.reports.telemetry import CORE, Telemetry, largest, scope_name
from mydyno.wording.numbers import display_unit
from mydyno.wording.stored_result import ReportStep

STILL_POINTS = 45
SHARED = (
    "tpmc",
    "innodb_checkpoint_age_bytes",
    "innodb_dirty_pages_pct",
    "cpu_system_pct",
    "cpu_iowait_pct",
    "disk_read_bytes_per_s",
    "disk_write_bytes_per_s",
    "disk_util_pct",
)
"""The resources that several instances on one host have separately or share."""


def build(result: StudyResult, telemetry: Telemetry) -> Section:
    """The section. The explorer needs a script; without one, and in print, the still pictures are there instead."""
    return Section(
        "over-time",
        "Telemetry over time",
        "Over time",
        render(
            "over_time.html",
            notes=_notes(telemetry),
            lists=_lists(telemetry),
            available=bool(telemetry.panels),
            legend=legend(result, with_copy=True),
            still=_still_groups(result, telemetry),
            session=_session_groups(result, telemetry),
        ),
    )


def _notes(telemetry: Telemetry) -> list[str]:
    notes = []
    if telemetry.invalid:
        steps = "; ".join([f"{step}: {', '.join(arms)}" for step, arms in telemetry.invalid.items()])
        notes.append(f"Drawn from invalid runs, for diagnosis, because no run is valid: {steps}.")
    if telemetry.missing_files:
        notes.append(agreed(f"{telemetry.missing_files} runs have no readable samples.parquet in the study folder."))
    widths = sorted(set(telemetry.widths_s.values()))
    if widths and widths[-1] > 1:
        notes.append(f"To keep this page small a point stands for up to {widths[-1]:g} s; the band keeps the extremes.")
    return notes


def _lists(telemetry: Telemetry) -> list[tuple[str, str]]:
    """(heading, names) of the series that are not drawn."""
    lists = [
        (
            agreed(f"{len(telemetry.left_out)} series {'is' if len(telemetry.left_out) == 1 else 'are'} only in "
                "samples.parquet, to limit the size of the page"),
            telemetry.left_out,
        ),
        (
            f"{len(telemetry.constant)} series {'is' if len(telemetry.constant) == 1 else 'are'} zero in "
                "every sample",
            telemetry.constant,
        ),
    ]  # fmt: skip
    return [(heading, ", ".join(series)) for heading, series in lists if series]


def _still_groups(result: StudyResult, telemetry: Telemetry) -> list[FigureGroup]:
    """Per workload and core metric a row of pictures, one per level, on one scale of values."""
    groups = []
    for workload in result.workloads:
        for where in _shown(telemetry):
            figures = [
                Figure([Markup(chart)])
                for step in result.steps_of_workload(workload)
                if (chart := _still(result, telemetry, step, *where))
            ]
            if figures:
                groups.append(
                    FigureGroup(
                        f"{_where_name(result, telemetry, where)} over time, {workload}",
                        figures,
                    )
                )
    return groups


def _shown(telemetry: Telemetry) -> list[Series]:
    """The series with still pictures: the core ones, and with several instances each one's and what they share."""
    core = [where for metric in CORE if (where := telemetry.core(metric)) is not None]
    if not _several(telemetry):
        return core
    return [*core, *(pair for metric in SHARED for pair in telemetry.series if _drawn(pair, metric, core))]


def _drawn(pair: Series, metric: str, core: list[Series]) -> bool:
    """Whether a series is this metric of an instance, a driver or the whole host; not of one disk or interface."""
    return pair[1] == metric and pair not in core and pair[0].partition(":")[0] in ("host", "instance", "driver")


def _several(telemetry: Telemetry) -> bool:
    return any(scope == "instance:2" for scope, _ in telemetry.series)


def _where_name(result: StudyResult, telemetry: Telemetry, where: Series) -> str:
    """The metric, and of which instance where there are several."""
    scope, metric = where
    kind, _, number = scope.partition(":")
    named = _several(telemetry) and kind in ("instance", "driver")
    name = result.metric_name(metric)
    return f"{name}, instance {number}" if named else name


def _still(result: StudyResult, telemetry: Telemetry, step: ReportStep, scope: str, metric: str) -> str:
    panel = telemetry.panels.get((step.id, scope, metric))
    if not panel:
        return ""
    window = result.summary.windows.get(step.id)
    return timeline_chart(
        f"time:{metric}:{step.id}",
        step.level,
        f"{result.metric_name(metric)} ({scope_name(scope)}) of {step.workload} at {step.level}: median of "
        "each arm's runs, with the range of all its runs as a band.",
        display_unit(metric, largest(telemetry, scope, metric)),
        time_series(result, panel, STILL_POINTS),
        telemetry.durations_s[step.id],
        (window.from_s, window.to_s) if window else None,
    )


def time_series(
    result: StudyResult, panel: Panel, points: int, bands: bool = True, arms: Collection[str] | None = None
) -> list[TimeSeries]:
    """The panel's lines, thinned by joining neighbours to at most so many points; of these arms alone where said."""
    control = result.summary.control
    looks = [(style, (arm, 1)) for arm, style in result.styles.items() if arms is None or arm in arms]
    if arms is None:
        looks.append((copy_style(result.styles[control]), (control, 2)))
    series = []
    for style, group in looks:
        if group not in panel:
            continue
        line = panel[group]
        factor = max(1, math.ceil(len(line.middle) / points))
        seconds = line.seconds()[factor - 1 :: factor]
        band = bands and not style.copy
        middle = _thinned(line.middle, factor, "mean")[: len(seconds)]
        low = _thinned(line.low, factor, "min")[: len(seconds)] if band else None
        high = _thinned(line.high, factor, "max")[: len(seconds)] if band else None
        series.append(TimeSeries(style, seconds, middle, low, high))
    return series


def _thinned(line: Sequence[float], factor: int, how: str) -> list[float | None]:
    thinned: list[float | None] = []
    for start in range(0, len(line), factor):
        values = [value for value in line[start : start + factor] if not math.isnan(value)]
        if not values:
            thinned.append(None)
        else:
            thinned.append({"mean": sum(values) / len(values), "min": min(values), "max": max(values)}[how])
    return thinned


def _session_groups(result: StudyResult, telemetry: Telemetry) -> list[FigureGroup]:
    """Resident memory over whole runs: all blocks in one chart, then each block with its order of steps."""
    if not telemetry.session_all:
        return []
    panel = telemetry.session_all
    values = [value for line in panel.values() for value in line.high if not math.isnan(value)]
    unit = display_unit("server_rss_bytes", max(values))
    duration = max(len(line.middle) * line.width_s for line in panel.values())
    description = (
        "Resident memory of the server from the start of a run to its end; median and range of each arm's runs."
    )
    charts = [
        Markup(
            timeline_chart(
                f"session:server_rss_bytes{suffix}",
                "RSS over the run",
                description,
                unit,
                time_series(result, panel, 120),
                duration,
                size=size,
                css=css,
            )
        )
        for suffix, css, size in (("", "wide", (760.0, 280.0)), (":narrow", "narrow", (350.0, 240.0)))
    ]
    together = FigureGroup(
        f"Resident memory over the whole run ({format_duration(duration)}), all blocks",
        [Figure(charts, _session_table(result, panel), "", "full")],
        text="Steps come in another order in every block, so this shows growth over a run, not the effect of a step.",
    )
    blocks = [
        Figure([Markup(_session_block(result, block, of_block))]) for block, of_block in telemetry.session.items()
    ]
    apart = FigureGroup(
        "Resident memory over the whole run, block by block (lines mark the steps)", blocks, folded=True
    )
    return [together, apart]


def _session_block(result: StudyResult, block: int, panel: Panel) -> str:
    values = [value for line in panel.values() for value in line.high if not math.isnan(value)]
    record = next((one for one in result.records.values() if one.block == block), None)
    marks = []
    levels = {step.id: step for step in result.steps}
    for step in record.steps if record else ():
        if step.id in levels:
            initials = "".join(part[0] for part in step.workload.split("_")[1:]) or step.workload[0]
            at_s = (step.started_unix_ns - record.started_unix_ns) / 1e9  # type: ignore[union-attr]
            marks.append((at_s, initials + levels[step.id].amount_text))
    return timeline_chart(
        f"session:server_rss_bytes:block-{block}",
        f"RSS, block {block}",
        "Resident memory of every arm's run in this block; the order of steps is the same for all of them.",
        display_unit("server_rss_bytes", max(values)),
        time_series(result, panel, 100, bands=False),
        max(len(line.middle) * line.width_s for line in panel.values()),
        marks=sorted(marks),
    )


def _session_table(result: StudyResult, panel: Panel) -> Table:
    rows: list[list[str | Cell]] = []
    order = list(result.styles)
    for (arm, copy), line in sorted(panel.items(), key=lambda item: (order.index(item[0][0]), item[0][1])):
        present = [value for value in line.middle if not math.isnan(value)]
        unit = display_unit("server_rss_bytes", max(present))
        label = arm if copy == 1 else f"{arm} again (A/A)"
        cells = [present[0], median(present), present[-1], max(value for value in line.high if not math.isnan(value))]
        rows.append([label, *(Cell(unit.text(value, 4), "num") for value in cells), Cell(str(line.runs), "num")])
    return Table(
        "Resident memory of the server over whole runs (medians of the arm's runs; the greatest of all)",
        ["arm", "first sample", "median", "last sample", "greatest", "runs"],
        rows,
    )
