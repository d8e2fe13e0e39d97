"""Higher: the arm's number is above the control's.

Condition: the simultaneous interval lies above 1, the effect is larger than the A/A floor, and the adjusted sign-flip
agrees. The gates are clean by construction: an invalid run has no value here.
"""

from __future__ import annotations

from mydyno.verdicts.case import Case, Rule
from mydyno.verdicts.effect import Verdict
from mydyno.verdicts.words import at_load, caveats, margin, percent, phrase, where


def holds(case: Case) -> bool:
    """Whether the arm's number is higher."""
    return case.differs and case.paired.ratio is not None and case.paired.ratio > 1.0


def sentence(case: Case) -> str:
    """X % more than the control, with the interval, the scope and whether it matters."""
    return positive_sentence(case, phrase(case.metric).more)


def positive_sentence(case: Case, words: str) -> str:
    """The sentence of `higher` and `lower`: sizes are without sign, because the words carry the direction."""
    interval, ratio = case.contrast.interval, case.paired.ratio
    assert ratio is not None and interval.low is not None and interval.high is not None
    ends = sorted(abs(end - 1.0) for end in (interval.low, interval.high))
    claim = f"{case.arm} {words.format(x=percent(ratio - 1.0))} {case.control} [{percent(ends[0])}, {percent(ends[1])}]"
    scope = at_load(case.scope) + where(case.scope, case.paired.n, case.metric)
    return f"{claim}{scope}; {relevance(case, ends[0])}.{caveats(case)}"


def relevance(case: Case, nearest: float) -> str:
    """Whether the difference matters by the margin declared before; `nearest` is the interval's end nearer to none."""
    declared = margin(case.margin)
    if nearest >= case.margin:
        return f"practically relevant: the whole interval is beyond ±{declared}"
    if case.equivalence.equivalent:
        return f"real but small: equivalent within ±{declared}"
    return f"size uncertain: it may be smaller than {declared}"


RULE = Rule(Verdict.HIGHER, holds, sentence)
