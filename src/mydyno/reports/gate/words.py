"""The words of a gate that every format prints: the answer in one sentence, and a row for each comparison."""

from __future__ import annotations

from dataclasses import dataclass

from mydyno.reports.numbers import metric_name
from mydyno.results.gate import GateResult
from mydyno.results.plain_words import listing, signed
from mydyno.verdicts.threshold import Comparison, Outcome

TITLES = {Outcome.FINE: "Fine", Outcome.WORSE: "Worse", Outcome.UNDECIDED: "Cannot be told"}
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
    if result.outcome is Outcome.FINE:
        what = {1: "The comparison is", 2: "Both comparisons are"}.get(count, f"All {count} comparisons are")
        return f"{what} shown to be within {'its limit' if count == 1 else 'their limits'}."
    if result.outcome is Outcome.WORSE:
        return " ".join(filter(None, (_worse(result, count), _failed(result), _open(len(open_), count))))
    if result.obstacle:
        return f"{result.obstacle[:1].upper()}{result.obstacle[1:]}."
    reasons = list(dict.fromkeys(one.reason for one in open_))
    what = "The comparison is" if count == 1 else f"{len(open_)} of {count} comparisons {_are(len(open_))}"
    why = f": {reasons[0]}" if len(reasons) == 1 else ""
    return f"{what} not decided{why}."


def of(result: GateResult, outcome: Outcome) -> list[Comparison]:
    """The comparisons with this outcome."""
    return [one for one in result.comparisons if one.outcome is outcome]


def _worse(result: GateResult, count: int) -> str:
    worse = of(result, Outcome.WORSE)
    if not worse:
        return ""
    named = [f"{metric_name(one.metric.name)} of {one.arm} at {one.step} ({_effect(one)}, limit {limit_text(one)})"
             for one in worse[:MOST_LISTED]]  # fmt: skip
    more = [f"{len(worse) - MOST_LISTED} more"] if len(worse) > MOST_LISTED else []
    what = "The comparison is" if count == 1 else f"{len(worse)} of {count} comparisons {_are(len(worse))}"
    return f"{what} shown to be beyond {'its limit' if len(worse) == 1 else 'their limits'}: {listing(named + more)}."


def _failed(result: GateResult) -> str:
    found = {one.arm: one.reason.replace("the arm failed", "failed", 1) for one in of(result, Outcome.FAILED)}
    return " ".join(f"{arm} {reason}, where {_control(result, arm)} did not." for arm, reason in found.items())


def _control(result: GateResult, arm: str) -> str:
    return next(one.control for one in result.comparisons if one.arm == arm)


def _open(open_: int, count: int) -> str:
    return f"{open_} of {count} comparisons {_are(open_)} not decided." if open_ else ""


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def notes(result: GateResult) -> list[str]:
    """How the answer was reached, in sentences: tests, error rate, and what weakens it."""
    at = ""
    if result.look is not None:
        at = f" at the look of {result.look} blocks, of which all together have an error rate of 5 %"
    found = []
    if any(one.ratio is not None for one in result.comparisons):
        found.append(
            f"One-sided tests of each limit at {result.alpha * 100:.3g} %{at}; the bounds are one-sided, each alone. "
            "A study is wrongly called fine, or wrongly called worse, with at most 5 % probability each."
        )
    if result.obstacle and result.outcome is not Outcome.UNDECIDED:
        found.append(f"{result.obstacle[:1].upper()}{result.obstacle[1:]}.")
    if result.late:
        found.append("Thresholds were set on the command line; the study did not declare them before its first run.")
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
                f"{one.arm} against {one.control}" if several else one.arm,
                one.step,
                limit_text(one),
                _effect(one),
                bounds,
                one.outcome.value,
                one.reason,
            )
        )
    return found
