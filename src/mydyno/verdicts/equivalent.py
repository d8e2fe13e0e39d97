"""Equivalent within ±margin: the 1 − 2·alpha interval lies inside the margin (two one-sided tests), from 6 blocks on.

Per contrast and not adjusted over the family. Only this verdict states that there is no relevant difference: a wide
interval around 1 is `inconclusive`.
"""

from __future__ import annotations

from mydyno.verdicts.case import Case, Rule
from mydyno.verdicts.effect import Verdict


def holds(case: Case) -> bool:
    """Whether the two one-sided tests both reject."""
    return case.equivalent


RULE = Rule(Verdict.EQUIVALENT, holds)
