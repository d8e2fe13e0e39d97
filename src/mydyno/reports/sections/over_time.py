"""Telemetry over time: the explorer."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from mydyno.document.charts.timeline import TimeSeries
from mydyno.document.parts import Fold, Note, Part
from mydyno.document.result import StudyResult
from mydyno.document.section import render
from mydyno.language import agreed
from mydyno.reports.telemetry import Panel, Telemetry

INTRO = (
    "Lines are the median over an arm's valid runs, bands reach from the least to the greatest value of any of them; "
    "the control's second copy is the thin dotted line. Shaded time is outside the measured window."
)


def build(telemetry: Telemetry) -> Part:
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
