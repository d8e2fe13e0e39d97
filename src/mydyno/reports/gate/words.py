"""The words of a gate that every format prints: the answer in one sentence, and a row for each comparison."""

from __future__ import annotations

from dataclasses import dataclass

from mydyno.language import colon, listing, marked, sentence_space, tr, tr_plural
from mydyno.reports.numbers import metric_name
from mydyno.results.gate import GateResult
from mydyno.results.words.plain import signed
from mydyno.verdicts.threshold import Comparison, Outcome

TITLES = {Outcome.PASSED: marked("Passed"), Outcome.WORSE: marked("Worse"), Outcome.UNDECIDED: marked("Undecided")}
MOST_LISTED = 3
"""Comparisons that the answer names; the table has all of them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison in words; empty where there is nothing to print."""

    metric: str
    arm: str
    step: str
    limit: str
    effect: str
    bounds: str
    outcome: str
    reason: str


def answer(result: GateResult) -> str:
    """What was asked, answered in one or two sentences."""
    count, open_ = len(result.comparisons), of(result, Outcome.UNDECIDED)
    if result.outcome is Outcome.PASSED:
        if count == 2:
            return tr("Both comparisons are within their limits.")
        return tr_plural(
            "The comparison is within its limit.",
            "All {count} comparisons are within their limits.",
            count,
        )
    if result.outcome is Outcome.WORSE:
        return sentence_space().join(filter(None, (_worse(result, count), _failed(result), _open(len(open_), count))))
    if result.obstacle:
        return tr("{clauses}.", clauses=f"{result.obstacle[:1].upper()}{result.obstacle[1:]}")
    reasons = list(dict.fromkeys(one.reason for one in open_))
    why = colon() + reasons[0] if len(reasons) == 1 else ""
    if count == 1:
        return tr("The comparison is undecided{why}.", why=why)
    return _undecided(len(open_), count, why)


def of(result: GateResult, outcome: Outcome) -> list[Comparison]:
    """The comparisons with this outcome."""
    return [one for one in result.comparisons if one.outcome is outcome]


def _worse(result: GateResult, count: int) -> str:
    worse = of(result, Outcome.WORSE)
    if not worse:
        return ""
    named = [
        tr(
            "{metric} of {arm} at {step} ({effect}, limit {limit})",
            metric=metric_name(one.metric.name), arm=one.arm, step=one.step, effect=_effect(one), limit=limit_text(one),
        )
        for one in worse[:MOST_LISTED]
    ]  # fmt: skip
    more = [tr("{more} more", more=len(worse) - MOST_LISTED)] if len(worse) > MOST_LISTED else []
    which = listing(named + more)
    if count == 1:
        return tr("The comparison exceeds its limit: {which}.", which=which)
    return tr_plural(
        "{count} of {all} comparisons exceeds its limit: {which}.",
        "{count} of {all} comparisons exceed their limits: {which}.",
        len(worse), all=count, which=which,
    )  # fmt: skip


def _failed(result: GateResult) -> str:
    found = {one.arm: one.reason.replace("the arm failed", "failed", 1) for one in of(result, Outcome.FAILED)}
    return sentence_space().join(
        tr("{arm} {reason}; {control} did not.", arm=arm, reason=reason, control=_control(result, arm))
        for arm, reason in found.items()
    )


def _control(result: GateResult, arm: str) -> str:
    return next(one.control for one in result.comparisons if one.arm == arm)


def _open(open_: int, count: int) -> str:
    return _undecided(open_, count, "") if open_ else ""


def _undecided(open_: int, count: int, why: str) -> str:
    return tr_plural(
        "{count} of {all} comparisons is undecided{why}.",
        "{count} of {all} comparisons are undecided{why}.",
        open_, all=count, why=why,
    )  # fmt: skip


def notes(result: GateResult) -> list[str]:
    """How the answer was reached, in sentences: tests, error rate, and what weakens it."""
    at = ""
    if result.look is not None:
        at = tr(
            " at the look of {blocks} blocks (error rate of all looks together: {rate:.3g} %)",
            blocks=result.look, rate=result.error_rate * 100,
        )  # fmt: skip
    found = []
    if any(one.ratio is not None for one in result.comparisons):
        found.append(
            tr(
                "One-sided tests of each limit at {level:.3g} %{at}; the bounds are one-sided and not adjusted. The "
                "probability that a study wrongly passes is at most {rate:.3g} %; so is the probability that it is "
                "wrongly called worse.",
                level=result.alpha * 100,
                rate=result.error_rate * 100,
                at=at,
            )
        )
    if result.obstacle and result.outcome is not Outcome.UNDECIDED:
        found.append(tr("{clauses}.", clauses=f"{result.obstacle[:1].upper()}{result.obstacle[1:]}"))
    if result.late:
        found.append(
            tr("Thresholds were set on the command line; the study did not declare them before its first run.")
        )
    return found


def limit_text(one: Comparison) -> str:
    """The limit as a signed change: −2 %."""
    return signed(one.limit - 1.0)


def _effect(one: Comparison) -> str:
    return "" if one.ratio is None else signed(one.ratio - 1.0)


def rows(result: GateResult) -> list[Row]:
    """A row for each comparison, in the order of the thresholds."""
    several = len({one.control for one in result.comparisons}) > 1
    found = []
    for one in result.comparisons:
        bounds = ""
        if one.low is not None and one.high is not None:
            bounds = f"{signed(one.low - 1.0)} … {signed(one.high - 1.0)}"
        found.append(
            Row(
                metric_name(one.metric.name),
                tr("{arm} against {control}", arm=one.arm, control=one.control) if several else one.arm,
                one.step,
                limit_text(one),
                _effect(one),
                bounds,
                tr(one.outcome.value),
                one.reason,
            )
        )
    return found
