"""Published claims beside what this study shows: the same rows for every format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from mydyno.language import agreed
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
    because: str = ""
    """What the answer on a figure rests on, and what is noted of it."""


def claims(result: StoredResult) -> list[Claim]:
    """Conclusions first, then figures on the metrics of the answer, then those on other metrics."""
    summary = result.summary
    steps = NextSteps(summary, result.study, tuple(result.records.values()))
    found = [
        Claim(one.study, one.claim, fact_clauses(one.facts), one.answer, steps.of_conclusion(one), stored=True)
        for one in summary.conclusions
    ]
    answered = answered_metrics(summary)
    figures = sorted(summary.published, key=lambda one: one.metric not in answered)
    return found + [
        Claim(
            one.study,
            _figure(result, one),
            _effect(one),
            one.agreement,
            steps.of_figure(one),
            because="; ".join(filter(None, (fact_clauses(one.facts), fact_clauses(one.notes)))),
        )
        for one in figures
    ]


def _figure(result: StoredResult, one: PublishedEntry) -> str:
    where = (one.step,) if len(result.steps) > 1 else ()
    facts = {
        "figure": ", ".join((result.metric_name(one.metric), *where)),
        "size": signed_percent(one.published_ratio - 1),
    }
    claim = "{figure}: {arm} against {control} {size}".format(arm=one.arm, control=one.control, **facts)
    other = next((note.values["published"] for note in one.notes if note.fact == "other load"), None)
    if other is None:
        return claim
    return agreed(f"{claim}, published at {other} connections")


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
        f"{name}: {known[name].title}; {known[name].host}."
        for name in named if name in known
    ]  # fmt: skip
    asked = [known[name] for name in result.study.experiment.published if name in known]
    left = sum(len(list(figures_of(one))) for one in asked) - len(result.summary.published)
    if left > 0:
        lines.append(
            f"{left} more published figure is of an arm, a load or a metric that this study does not have."
            if left == 1
            else f"{left} more published figures are of arms, loads or metrics that this study does not have."
        )
    scale = result.study.experiment.scale
    return [*lines, f"This study: scale {scale}."] if lines else []


def counted(answers: Iterable[str]) -> str:
    """The number of each answer: "2 agree, 1 undecided"."""
    found = Counter(answers)
    return ", ".join(_counted(one, count) for one, count in found.most_common())


def _counted(answer: str, count: int) -> str:
    if answer == "agrees":
        return f"{count} {'agrees' if count == 1 else 'agree'}"
    if answer == "disagrees":
        return f"{count} {'disagrees' if count == 1 else 'disagree'}"
    return f"{count} partly" if answer == "partly" else f"{count} undecided"
