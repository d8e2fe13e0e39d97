"""What published studies claim beside what this study shows; of figures also a chart, as ratios."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from markupsafe import Markup

from mydyno.document.charts.forest import ForestGroup, ForestRow, forest_chart
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Figure, FigureGroup, Section, Table, render, sentence_markup
from mydyno.language import agreed
from mydyno.model.stored.summary import PublishedEntry
from mydyno.wording.claims import Claim, claims, conditions, counted
from mydyno.wording.published import SIGNED


def build(result: StudyResult) -> Section | None:
    """The section, or None if the experiment repeats no published study."""
    found = [] if result.before_first_look else claims(result)
    if not found:
        return None
    entries = result.summary.published
    charts = [
        FigureGroup(study, [_figure(result, study, [entry for entry in entries if entry.study == study])])
        for study in dict.fromkeys(entry.study for entry in entries if entry.arm in result.styles)
    ]
    intro = "Absolute figures of another host cannot be compared; ratios of arm to control can."
    if charts:
        intro += " The hollow diamond is the published ratio, the mark with its interval is that of this study."
    return Section(
        "published",
        "What published studies claim",
        "Published",
        render(
            "figures.html",
            intro=intro,
            legend="",
            groups=[
                FigureGroup("", [Figure([], _table(result, found), "", "full claims", numbers_open=True)]),
                *charts,
            ],
            empty="",
        ),
        counted(one.answer for one in found),
    )


def _table(result: StudyResult, found: Sequence[Claim]) -> Table:
    rows: list[list[str | Cell]] = []
    for one in found:
        here = agreed(one.here) if one.stored else one.here
        would = f"It would take {one.next_step}." if one.next_step else ""
        because = f"{one.because[:1].upper()}{one.because[1:]}." if one.because else ""
        below = sentence_markup(" ".join(filter(None, (because, would))))
        rows.append([f"{one.claim} ({one.study})", Cell(SIGNED[one.answer], "word"), Cell(here, "prose", below=below)])
    caption = f"Claims of published studies, and what this host shows: {counted(one.answer for one in found)}"
    return Table(caption, ("claim", "agreement", "what this host shows"), rows, " ".join(conditions(result)))


def _figure(result: StudyResult, study: str, entries: Sequence[PublishedEntry]) -> Figure:
    by_group: dict[str, list[ForestRow]] = {}
    for entry in entries:
        if entry.arm not in result.styles:
            continue
        published, ours, low, high = map(_share, (entry.published_ratio, entry.ratio, entry.ci_low, entry.ci_high))
        row = ForestRow(result.styles[entry.arm], ours, low, high, (), SIGNED[entry.agreement], published)
        by_group.setdefault(", ".join((result.metric_name(entry.metric), entry.step)), []).append(row)
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
    return Figure(charts, None, "", "double")


def _share(ratio: float | None) -> float | None:
    return ratio - 1 if ratio is not None and isfinite(ratio) else None
