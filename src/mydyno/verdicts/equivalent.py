"""Equivalent within ±margin: the 1 − 2·alpha interval lies inside the margin (two one-sided tests), from 6 blocks on.

Per contrast and not adjusted over the family. Only this verdict states that there is no relevant difference: a wide
interval around 1 is `inconclusive`.
"""

from __future__ import annotations

from mydyno.model.metrics import phrase_of
from mydyno.verdicts.case import Case, Rule
from mydyno.verdicts.effect import Verdict
from mydyno.verdicts.words import at_load, caveats, margin, signed, where


def holds(case: Case) -> bool:
    """Whether the two one-sided tests both reject."""
    return case.equivalent


def sentence(case: Case) -> str:
    """Equivalent within the margin, with the interval that shows it."""
    interval = case.equivalence.interval
    assert interval.low is not None and interval.high is not None
    noun = phrase_of(case.metric.name, (case.scope.workload,)).noun
    return (
        f"{case.arm} and {case.control} are equivalent within ±{margin(case.margin)} in {noun} "
        f"[{signed(interval.low)}, {signed(interval.high)}]{at_load(case.scope)}{where(case.scope, case.n)}."
        f"{caveats(case)}"
    )


RULE = Rule(Verdict.EQUIVALENT, holds, sentence)
