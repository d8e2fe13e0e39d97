"""Telemetry over time: the explorer, and resident memory over whole runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import median

from mydyno.document.charts.timeline import TimeSeries, timeline_chart
from mydyno.document.parts import Figures, Fold, Note, Part
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Figure, FigureGroup, Table, legend, render
from mydyno.language import agreed
from mydyno.model.definition.quantities import format_duration
from mydyno.model.phrases import lane_name
from mydyno.reports.envelopes import Panel
from mydyno.reports.telemetry import Telemetry, read_session_rss
from mydyno.wording.numbers import display_unit, signed_percent

INTRO = (
    "Lines are the median over an arm's valid runs, bands reach from the least to the greatest value of any of them; "
    "the control's second copy is the thin dotted line. Shaded time is outside the measured window."
)


def build(telemetry: Telemetry) -> Part:
    """The explorer, which needs a script."""
    names = [Note(f"{heading}: {names}.") for heading, names in _lists(telemetry)]
    drawn = render("explorer.html", what="These charts need") if telemetry.panels else None
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


def time_series(
    result: StudyResult, panel: Panel, points: int, bands: bool = True, arms: Collection[str] | None = None
) -> list[TimeSeries]:
    """The panel's lines, thinned by joining neighbours to at most so many points; of these arms alone where said."""
    series = []
    for group, style in result.lane_styles.items():
        if group not in panel or (arms is not None and (style.copy or style.name not in arms)):
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


def memory(result: StudyResult) -> Part | None:
    """Resident memory over whole runs, of all blocks together; None without samples of it."""
    panel = read_session_rss(result)
    if not panel:
        return None
    values = [value for line in panel.values() for value in line.high if not math.isnan(value)]
    unit = display_unit("server_rss_bytes", max(values))
    duration = max(len(line.middle) * line.width_s for line in panel.values())
    description = (
        "Resident memory of the server from the start of a run to its end; median and range of each arm's runs."
    )
    charts = [
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
        for suffix, css, size in (("", "wide", (760.0, 280.0)), (":narrow", "narrow", (350.0, 240.0)))
    ]
    intro = (
        "Load levels come in another order in every block, so this shows growth over a run, not the effect of a load "
        "level. Lines are medians of each arm's runs, bands their range."
    )
    figure = Figure(charts, _session_table(result, panel), "", "full", numbers_open=True)
    return Part(
        id="memory-over-time", heading=f"Resident memory over the whole run ({format_duration(duration)})",
        says=_growth(result, panel), folded=True,
        body=[Note(intro, "intro"), Figures([FigureGroup("", [figure])], legend(result, with_copy=True))],
    )  # fmt: skip


def _growth(result: StudyResult, panel: Panel) -> str:
    """How much the control's median grew."""
    line = panel.get((result.summary.control, 1))
    present = [value for value in line.middle if not math.isnan(value)] if line else []
    if not present or present[0] <= 0:
        return ""
    return f"{result.summary.control}: {signed_percent(present[-1] / present[0] - 1)} from the first sample to the last"


def _session_table(result: StudyResult, panel: Panel) -> Table:
    rows: list[list[str | Cell]] = []
    order = list(result.styles)
    for (arm, copy), line in sorted(panel.items(), key=lambda item: (order.index(item[0][0]), item[0][1])):
        present = [value for value in line.middle if not math.isnan(value)]
        unit = display_unit("server_rss_bytes", max(present))
        cells = [present[0], median(present), present[-1], max(value for value in line.high if not math.isnan(value))]
        sizes = (Cell(unit.text(value, 4), "num") for value in cells)
        rows.append([lane_name(arm, copy), *sizes, Cell(str(line.runs), "num")])
    return Table(
        "Resident memory of the server over whole runs (medians of the arm's runs; the greatest of all)",
        ["arm", "first sample", "median", "last sample", "greatest", "runs"],
        rows,
    )
