"""What published studies claim beside what this study shows; of figures also a chart, as ratios."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from mydyno.analysis.base import Analysis, Examined
from mydyno.analysis.published.conclusions import conclusions_of
from mydyno.analysis.published.figures import compare_with_published, figures_of
from mydyno.analysis.published.words import SIGNED, NextSteps, fact_clauses
from mydyno.document.charts.forest import ForestGroup, ForestRow, forest_charts
from mydyno.document.parts import Figures, Note, Part
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Figure, FigureGroup, Table
from mydyno.experiment_file.published_studies import published_studies
from mydyno.language import agreed
from mydyno.model.stored.summary import ConclusionRecord, PublishedEntry, Summary
from mydyno.results.precision import answered_metrics
from mydyno.wording.numbers import NONE, ratio_interval, signed_percent
from mydyno.wording.reasons import counted_claims
from mydyno.wording.stored_result import StoredResult


def _has_claims(result: StudyResult) -> bool:
    return bool(not result.before_first_look and (result.summary.conclusions or result.summary.published))


def part(result: StudyResult) -> Part | None:
    """The section, or None if the experiment repeats no published study."""
    if not _has_claims(result):
        return None
    entries = [one for one in result.summary.published if one.arm in result.styles]
    charts = [
        FigureGroup(study, [_figure(result, study, [entry for entry in entries if entry.study == study])])
        for study in dict.fromkeys(entry.study for entry in entries)
    ]
    ratios = "Absolute figures of another host cannot be compared; ratios of arm to control can."
    intro = "The hollow diamond is the published ratio, the mark with its interval is that of this study."
    return Part(
        id="published", heading="What published studies claim", says=counted_claims(result.summary), folded=True,
        body=[Note(ratios, "intro"), _table(result), Figures(charts, intro=intro)],
    )  # fmt: skip


def lines(result: StudyResult) -> list[str]:
    """For a terminal: how many claims are confirmed."""
    studies, answers = ", ".join(_studies(result.summary)), counted_claims(result.summary)
    return [f"Claims of {studies}, compared in the report: {answers}."] if _has_claims(result) else []


def _studies(summary: Summary) -> list[str]:
    return list(dict.fromkeys([*(one.study for one in summary.conclusions), *(one.study for one in summary.published)]))


def _table(result: StudyResult) -> Table:
    """Conclusions first, then figures on the metrics of the answer, then those on other metrics."""
    summary = result.summary
    steps = NextSteps(summary, result.study, tuple(result.records.values()))
    rows: list[list[str | Cell]] = [
        _row(one.study, one.claim, one.answer, fact_clauses(one.facts), "", steps.of_conclusion(one))
        for one in summary.conclusions
    ]
    answered = answered_metrics(summary)
    for one in sorted(summary.published, key=lambda one: one.metric not in answered):
        because = "; ".join(filter(None, (fact_clauses(one.facts), fact_clauses(one.notes))))
        because = f"{because[:1].upper()}{because[1:]}." if because else ""
        rows.append(_row(one.study, _claim(result, one), one.agreement, _effect(one), because, steps.of_figure(one)))
    caption = f"Claims of published studies, and what this host shows: {counted_claims(summary)}"
    return Table(caption, ("claim", "agreement", "what this host shows"), rows, _conditions(result), look="claims")


def _row(study: str, claim: str, answer: str, here: str, because: str, next_step: str) -> list[str | Cell]:
    below = " ".join(filter(None, (because, f"It would take {next_step}." if next_step else "")))
    return [f"{claim} ({study})", Cell(SIGNED[answer], "word"), Cell(here, "prose", below=below)]


def _claim(result: StoredResult, one: PublishedEntry) -> str:
    where = (one.step,) if len(result.steps) > 1 else ()
    figure = ", ".join((result.metric_name(one.metric), *where))
    claim = f"{figure}: {one.arm} against {one.control} {signed_percent(one.published_ratio - 1)}"
    other = next((note.values["published"] for note in one.notes if note.fact == "other load"), None)
    return claim if other is None else agreed(f"{claim}, published at {other} connections")


def _effect(one: PublishedEntry) -> str:
    if one.ratio is None:
        return NONE
    size, interval = signed_percent(one.ratio - 1), ratio_interval(one.ci_low, one.ci_high)
    return f"{size} ({interval})" if interval else size


def _conditions(result: StoredResult) -> str:
    """Under what conditions each study's claims were found: where this host, scale or version is another one."""
    known, summary, experiment = published_studies(), result.summary, result.study.experiment
    found = [f"{name}: {known[name].title}; {known[name].host}." for name in _studies(summary) if name in known]
    if not found:
        return ""
    asked = [known[name] for name in experiment.published if name in known]
    left = sum(len(list(figures_of(one))) for one in asked) - len(summary.published)
    if left == 1:
        found.append("1 more published figure is of an arm, a load or a metric that this study does not have.")
    elif left > 0:
        found.append(f"{left} more published figures are of arms, loads or metrics that this study does not have.")
    return " ".join([*found, f"This study: scale {experiment.scale}."])


def _figure(result: StudyResult, study: str, entries: Sequence[PublishedEntry]) -> Figure:
    by_group: dict[str, list[ForestRow]] = {}
    for entry in entries:
        published, ours, low, high = map(_share, (entry.published_ratio, entry.ratio, entry.ci_low, entry.ci_high))
        row = ForestRow(result.styles[entry.arm], ours, low, high, (), SIGNED[entry.agreement], published)
        by_group.setdefault(", ".join((result.metric_name(entry.metric), entry.step)), []).append(row)
    forest = [ForestGroup(label, tuple(of_group)) for label, of_group in by_group.items()]
    title = f"{study}: published and measured effects"
    described = "Hollow diamonds are published ratios; marks with intervals are this study's."
    return Figure(forest_charts(f"published:{study}", title, described, forest, result.summary.margin), css="double")


def _share(ratio: float | None) -> float | None:
    return ratio - 1 if ratio is not None and isfinite(ratio) else None


def _conclusions(study: Examined) -> tuple[ConclusionRecord, ...]:
    return conclusions_of(study.experiment, study.every_run, study.effects, study.found["limits"])


def _compared(study: Examined) -> tuple[PublishedEntry, ...]:
    return tuple(compare_with_published(study.experiment, study.effects, study.found["limits"]))


CONCLUSIONS = Analysis(stored="conclusions", analyse=_conclusions)
ANALYSIS = Analysis(chapter="trust", part=part, comment=part, stored="published", analyse=_compared, lines=lines)
