"""Inconclusive: the interval contains both a difference and no difference. Always holds; tried last.

The sentence has the interval, what keeps it from a verdict where the interval alone would allow one, the size of
difference that such a study finds with 80 % power, and about how many blocks would decide.
"""

from __future__ import annotations

from mydyno.model.stored.fact import Fact, fact
from mydyno.stats.power import minimum_blocks, planned_exact_look
from mydyno.verdicts.case import Case, Rule
from mydyno.verdicts.effect import Verdict


def holds(case: Case) -> bool:
    """Always: what no other rule claims is inconclusive."""
    return case is not None


def facts(case: Case) -> tuple[Fact, ...]:
    """What keeps it from a verdict, and "seems_different"."""
    return (*weakness(case), *((fact("seems_different"),) if case.seems_different else ()))


def weakness(case: Case) -> tuple[Fact, ...]:
    """What keeps an interval on one side of 1 from being a difference; empty if the interval itself is undecided."""
    if not case.due:
        after = case.look_after
        return (fact("before_look", after=after) if after is not None else fact("between_looks"),)
    if case.too_few_blocks:
        return (fact("few_blocks", alpha=case.alpha, fewest=_fewest(case)),)
    known = case.p_adjusted_permutation is not None
    if not case.interval.excludes_no_change():
        return (fact("permutation_alone"),) if case.permutation_agrees and known else ()
    if not case.permutation_agrees and known:
        return (fact("interval_alone"),)
    if not case.beyond_copies and case.copies_differ is not None:
        return (fact("copies_differ"),)
    return ()


def _fewest(case: Case) -> int:
    """The blocks that can claim a difference."""
    labels = max(case.labels, default=2)
    needed = planned_exact_look(case.looks, case.contrasts, case.n, labels) if case.looks else None
    return needed or minimum_blocks(case.contrasts, case.alpha, labels)


RULE = Rule(Verdict.INCONCLUSIVE, holds, facts)
