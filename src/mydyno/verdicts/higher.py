"""Higher: the arm's number is above the control's.

Condition: the simultaneous interval lies above 1, the adjusted p of the joint permutation is at most alpha, and the
effect is larger than the mean difference of the control's two copies.
"""

from __future__ import annotations

from mydyno.model.stored.fact import Fact, fact
from mydyno.verdicts.case import Case, Rule
from mydyno.verdicts.effect import Verdict


def holds(case: Case) -> bool:
    """Whether the arm's number is higher."""
    return case.differs and (case.estimate.mean or 0.0) > 0.0


def facts(case: Case) -> tuple[Fact, ...]:
    """Whether the difference is within the margin."""
    return (fact("within_margin"),) if case.equivalent else ()


RULE = Rule(Verdict.HIGHER, holds, facts)
