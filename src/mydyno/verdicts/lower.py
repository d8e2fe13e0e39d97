"""Lower: the arm's number is below the control's. The conditions are those of `higher`, on the other side of 1."""

from __future__ import annotations

from mydyno.model.metrics import phrase_of
from mydyno.verdicts.case import Case, Rule
from mydyno.verdicts.effect import Verdict
from mydyno.verdicts.higher import positive_sentence


def holds(case: Case) -> bool:
    """Whether the arm's number is lower."""
    return case.differs and (case.estimate.mean or 0.0) < 0.0


def sentence(case: Case) -> str:
    """X % less than the control, with the interval."""
    return positive_sentence(case, phrase_of(case.metric.name, (case.scope.workload,)).past_less)


RULE = Rule(Verdict.LOWER, holds, sentence)
