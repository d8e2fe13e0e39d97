"""Lower: the arm's number is below the control's. The conditions are those of `higher`, on the other side of 1."""

from __future__ import annotations

from mydyno.verdicts.case import Case, Rule
from mydyno.verdicts.effect import Verdict
from mydyno.verdicts.higher import facts


def holds(case: Case) -> bool:
    """Whether the arm's number is lower."""
    return case.differs and (case.estimate.mean or 0.0) < 0.0


RULE = Rule(Verdict.LOWER, holds, facts)
