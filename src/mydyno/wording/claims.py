"""Published claims beside what this study shows: the same rows for every format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from mydyno.language import comma, tr, tr_plural
from mydyno.model.stored.summary import PublishedEntry
from mydyno.results.precision import answered_metrics
from mydyno.results.published.figures import figures_of
from mydyno.results.published.studies import published_studies
from mydyno.wording.next_steps import NextSteps
from mydyno.wording.numbers import percent_range, signed_percent
from mydyno.wording.published import fact_clauses
from mydyno.wording.stored_result import StoredResult


@dataclass(frozen=True, slots=True)
class Claim:
    """One published claim. `stored` texts are as the study keeps them, in English."""

    study: str
    claim: str
    here: str
    answer: str
    """agrees, partly, disagrees or cannot tell."""
    next_step: str = ""
    """What would decide an undecided claim."""
    stored: bool = False
    """Whether `here` is a stored text."""


def claims(result: StoredResult) -> list[Claim]:
    """Conclusions first, then figures on the metrics of the answer, then those on other metrics."""
    summary = result.summary
    steps = NextSteps(summary, result.study, tuple(result.records.values()))
    found = [
        Claim(one.study, tr(one.claim), fact_clauses(one.facts), one.answer, steps.of_conclusion(one), stored=True)
        for one in summary.conclusions
    ]
    answered = answered_metrics(summary)
    figures = sorted(summary.published, key=lambda one: one.metric not in answered)
    return found + [
        Claim(one.study, _figure(result, one), _effect(one), one.agreement, steps.of_figure(one)) for one in figures
    ]


def _figure(result: StoredResult, one: PublishedEntry) -> str:
    where = (one.step,) if len(result.steps) > 1 else ()
    facts = {"figure": comma((result.metric_name(one.metric), *where)), "size": signed_percent(one.published_ratio - 1)}
    claim = tr("{figure}: {arm} against {control} {size}", arm=one.arm, control=one.control, **facts)
    other = next((note.values["published"] for note in one.notes if note.fact == "other load"), None)
    if other is None:
        return claim
    return tr("{claim}, published at {connections} connections", claim=claim, connections=other)


def _effect(one: PublishedEntry) -> str:
    if one.ratio is None:
        return "–"
    size = signed_percent(one.ratio - 1)
    if one.ci_low is None or one.ci_high is None:
        return size
    return f"{size} ({percent_range(one.ci_low - 1, one.ci_high - 1)})"


def conditions(result: StoredResult) -> list[str]:
    """Under what conditions each study's claims were found: where this host, scale or version is another one."""
    known = published_studies()
    named = dict.fromkeys(
        (*(c.study for c in result.summary.conclusions), *(e.study for e in result.summary.published))
    )
    lines = [
        tr("{study}: {title}; {host}.", study=name, title=known[name].title, host=known[name].host)
        for name in named if name in known
    ]  # fmt: skip
    asked = [known[name] for name in result.study.experiment.published if name in known]
    left = sum(len(list(figures_of(one))) for one in asked) - len(result.summary.published)
    if left > 0:
        lines.append(
            tr_plural(
                "{count} more published figure is of an arm, a load or a metric that this study does not have.",
                "{count} more published figures are of arms, loads or metrics that this study does not have.",
                left,
            )
        )
    scale = result.study.experiment.scale
    return [*lines, tr("This study: scale {scale}.", scale=scale)] if lines else []


def counted(answers: Iterable[str]) -> str:
    """The number of each answer: "2 agree, 1 undecided"."""
    found = Counter(answers)
    return comma(_counted(one, count) for one, count in found.most_common())


def _counted(answer: str, count: int) -> str:
    if answer == "agrees":
        return tr_plural("{count} agrees", "{count} agree", count)
    if answer == "disagrees":
        return tr_plural("{count} disagrees", "{count} disagree", count)
    return tr("{count} partly", count=count) if answer == "partly" else tr("{count} undecided", count=count)
