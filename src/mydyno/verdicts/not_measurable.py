"""Not measurable here: this study cannot answer, whatever the numbers look like.

Condition, any of: arm or control failed; no valid block; more blocks lost than left; no A/A, so nothing shows that two
equal servers measure the same; A and A′ differ significantly.
"""

from __future__ import annotations

from mydyno.model.stored.fact import Fact, fact
from mydyno.verdicts.case import Case, Rule
from mydyno.verdicts.effect import Verdict


def holds(case: Case) -> bool:
    """Whether any reason keeps this contrast from an answer."""
    too_few = case.n == 0 or sum(case.lost.values()) > case.n
    return bool(case.failure or too_few or case.copies_differ is None or case.alarm)


def facts(case: Case) -> tuple[Fact, ...]:
    """Whether there is no A/A; the other reasons are fields of the effect."""
    return (fact("no_second_copy"),) if case.copies_differ is None else ()


RULE = Rule(Verdict.NOT_MEASURABLE, holds, facts)
