"""Higher: the arm's number is above the control's.

Condition: the simultaneous interval lies above 1, the adjusted p of the joint permutation is at most alpha, and the
effect is larger than the mean difference of the control's two copies.
"""

from __future__ import annotations

from mydyno.model.metrics import phrase_of
from mydyno.verdicts.case import Case, Rule
from mydyno.verdicts.effect import Verdict
from mydyno.verdicts.words import at_load, caveats, margin, percent, where


def holds(case: Case) -> bool:
    """Whether the arm's number is higher."""
    return case.differs and (case.estimate.mean or 0.0) > 0.0


def sentence(case: Case) -> str:
    """X % more than the control, with the interval."""
    return positive_sentence(case, phrase_of(case.metric.name, (case.scope.workload,)).past_more)


def positive_sentence(case: Case, words: str) -> str:
    """The sentence of `higher` and `lower`: sizes are without sign, because the words carry the direction."""
    interval, ratio = case.interval, case.estimate.ratio
    assert ratio is not None and interval.low is not None and interval.high is not None
    ends = sorted(abs(end - 1.0) for end in (interval.low, interval.high))
    claim = f"{case.arm} {words.format(x=percent(ratio - 1.0))} {case.control} [{percent(ends[0])}, {percent(ends[1])}]"
    small = f" The difference is within ±{margin(case.margin)}." if case.equivalent else ""
    return f"{claim}{at_load(case.scope)}{where(case.scope, case.n, case.metric)}.{small}{caveats(case)}"


RULE = Rule(Verdict.HIGHER, holds, sentence)
