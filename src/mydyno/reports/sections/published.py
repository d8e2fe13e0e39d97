"""The published studies' figures and those of this study, as ratios."""

from __future__ import annotations

from math import isfinite

from markupsafe import Markup

from mydyno.language import agreed
from mydyno.model.stored.summary import PublishedEntry
from mydyno.reports.charts.forest import ForestGroup, ForestRow, forest_chart
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Cell, Figure, FigureGroup, Section, Table, render
from mydyno.wording.claims import counted
from mydyno.wording.numbers import percent_range, signed_percent
from mydyno.wording.published import SIGNED, fact_clauses


def build(result: StudyResult) -> Section | None:
    """The section, or None if the experiment repeats no published study."""
    entries = result.summary.published
    if not entries:
        return None
    groups = [
        FigureGroup(study, [_figure(result, study, [entry for entry in entries if entry.study == study])])
        for study in dict.fromkeys(entry.study for entry in entries)
    ]
    return Section(
        "published",
        "Comparison with published figures",
        "Published",
        render(
            "figures.html",
            intro="Absolute figures of another host cannot be compared; ratios of arm to control can. The hollow "
            "diamond is the published ratio, the mark with its interval is that of this study.",
            legend="",
            groups=groups,
            empty="",
        ),
        counted(entry.agreement for entry in entries),
    )


def _figure(result: StudyResult, study: str, entries: list[PublishedEntry]) -> Figure:
    by_group: dict[str, list[ForestRow]] = {}
    rows: list[list[str | Cell]] = []
    for entry in entries:
        published, ours, low, high = map(_share, (entry.published_ratio, entry.ratio, entry.ci_low, entry.ci_high))
        agreement = SIGNED[entry.agreement]
        label = ", ".join((result.metric_name(entry.metric), entry.step))
        if entry.arm in result.styles:
            row = ForestRow(result.styles[entry.arm], ours, low, high, (), agreement, published)
            by_group.setdefault(label, []).append(row)
        interval = "–" if low is None or high is None else percent_range(low, high)
        why = agreed(" · ".join(filter(None, (fact_clauses(entry.facts), fact_clauses(entry.notes)))))
        cells = [_percent(published), _percent(ours), interval]
        rows.append(
            [label, entry.arm, *(Cell(cell, "num") for cell in cells), Cell(agreement, "word"), Cell(why, "prose")]
        )
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
    head = (
        "figure",
        "arm",
        "published",
        "ours",
        "95 % interval",
        "agreement",
        "reason, and note",
    )
    return Figure(
        charts,
        Table(f"{study}: effect relative to the control", head, rows),
        "",
        "full",
        numbers_open=True,
    )


def _share(ratio: float | None) -> float | None:
    return ratio - 1 if ratio is not None and isfinite(ratio) else None


def _percent(share: float | None) -> str:
    return "–" if share is None else signed_percent(share)
