"""The published studies' figures beside ours, as ratios. summary.json's `published` holds one entry per figure:

study, metric, step, arm, control (the arm's name there), published_ratio, ratio, ci_low, ci_high,
agreement ("agrees" | "disagrees" | "cannot tell"), because, note. What an entry does not have is left empty.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from markupsafe import Markup

from mydyno.reports.charts.forest import ForestGroup, ForestRow, forest_chart
from mydyno.reports.numbers import metric_name, signed_percent
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.answer import counted
from mydyno.reports.sections.section import Cell, Figure, FigureGroup, Section, Table, render

AGREEMENT = {"agrees": "= agrees", "disagrees": "≠ disagrees", "cannot tell": "? cannot tell"}


def build(result: StudyResult) -> Section | None:
    """The section, or None where the experiment repeats no published study."""
    entries = result.summary.published
    if not entries:
        return None
    groups = [
        FigureGroup(study, [_figure(result, study, [entry for entry in entries if _text(entry, "study") == study])])
        for study in dict.fromkeys(_text(entry, "study") for entry in entries)
    ]
    return Section(
        "published",
        "Beside the published figures",
        "Published",
        render(
            "figures.html",
            intro="Absolute figures of another host cannot be compared; ratios of arm to control can. The hollow "
            "diamond is the published ratio, the mark with its interval is ours.",
            legend="",
            groups=groups,
            empty="",
        ),
        counted(_text(entry, "agreement") for entry in entries),
    )


def _figure(result: StudyResult, study: str, entries: list[dict[str, Any]]) -> Figure:
    by_group: dict[str, list[ForestRow]] = {}
    rows: list[list[str | Cell]] = []
    for entry in entries:
        metric, step, arm = (_text(entry, key) for key in ("metric", "step", "arm"))
        published, ours, low, high = (_share(entry, key) for key in ("published_ratio", "ratio", "ci_low", "ci_high"))
        agreement = AGREEMENT.get(_text(entry, "agreement"), _text(entry, "agreement"))
        label = f"{metric_name(metric)}, {step}" if step else metric_name(metric)
        if arm in result.styles:
            row = ForestRow(result.styles[arm], ours, low, high, (), agreement, published)
            by_group.setdefault(label, []).append(row)
        interval = "–" if low is None or high is None else f"{signed_percent(low)} … {signed_percent(high)}"
        why = " · ".join(filter(None, (_text(entry, "because"), _text(entry, "note"))))
        cells = [_percent(published), _percent(ours), interval]
        rows.append([label, arm, *(Cell(cell, "num") for cell in cells), Cell(agreement, "word"), Cell(why, "prose")])
    charts = []
    if by_group:
        forest = [ForestGroup(label, tuple(of_group)) for label, of_group in by_group.items()]
        charts = [
            Markup(
                forest_chart(
                    f"published:{study}{suffix}",
                    f"{study}: published and measured effects",
                    "Hollow diamonds are published ratios; marks with intervals are this study's.",
                    forest,
                    result.summary.margin,
                    width,
                )
            )
            for suffix, width in (("", 560.0), (":narrow", 350.0))
        ]
    head = ("figure", "arm", "published", "ours", "95 % interval", "agreement", "why, and with what")
    return Figure(charts, Table(f"{study}: effect relative to the control", head, rows), "", "full", numbers_open=True)


def _text(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    return "" if value is None else str(value)


def _share(entry: dict[str, Any], key: str) -> float | None:
    value = entry.get(key)
    return float(value) - 1 if isinstance(value, int | float) and isfinite(value) else None


def _percent(share: float | None) -> str:
    return "–" if share is None else signed_percent(share)
