"""The five verdicts as rules, tried in their order: the first that holds is the verdict of a contrast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mydyno.model.stored.reasons import Fact, fact
from mydyno.stats.power import minimum_blocks, planned_exact_look
from mydyno.verdicts.case import Case
from mydyno.verdicts.effect import Verdict


@dataclass(frozen=True, slots=True)
class Rule:
    """One verdict: when it holds, and the facts that it rests on beside the numbers of the effect."""

    verdict: Verdict
    holds: Callable[[Case], bool]
    facts: Callable[[Case], tuple[Fact, ...]] = lambda _: ()


def _not_measurable(case: Case) -> bool:
    """Not measurable here: this study cannot answer, whatever the numbers look like.

    Condition, any of: arm or control failed; no valid block; more blocks lost than left; no A/A, so nothing shows that
    two equal servers measure the same; A and A′ differ significantly.
    """
    too_few = case.n == 0 or sum(case.lost.values()) > case.n
    return bool(case.failure or too_few or case.copies_differ is None or case.alarm)


def _no_second_copy(case: Case) -> tuple[Fact, ...]:
    """Whether there is no A/A; the other reasons are fields of the effect."""
    return (fact("no_second_copy"),) if case.copies_differ is None else ()


def _higher(case: Case) -> bool:
    """Higher: the arm's number is above the control's.

    Condition: the simultaneous interval lies above 1, the adjusted p of the joint permutation is at most alpha, and the
    effect is larger than the mean difference of the control's two copies.
    """
    return case.differs and (case.estimate.mean or 0.0) > 0.0


def _lower(case: Case) -> bool:
    """Lower: the arm's number is below the control's. The conditions are those of `higher`, on the other side of 1."""
    return case.differs and (case.estimate.mean or 0.0) < 0.0


def _within_margin(case: Case) -> tuple[Fact, ...]:
    """Whether the difference is within the margin."""
    return (fact("within_margin"),) if case.equivalent else ()


def _equivalent(case: Case) -> bool:
    """Equivalent within ±margin: the 1 − 2·alpha interval lies inside the margin (two one-sided tests), from 6 blocks
    on.

    Per contrast and not adjusted over the family. Only this verdict states that there is no relevant difference: a wide
    interval around 1 is `inconclusive`.
    """
    return case.equivalent


def _inconclusive(case: Case) -> bool:
    """Inconclusive: the interval contains both a difference and no difference. Always holds; tried last.

    The table of all metrics states what keeps it from a verdict where the interval alone would allow one, and the size
    of difference that such a study finds with 80 % power.
    """
    return case is not None


def _weakness(case: Case) -> tuple[Fact, ...]:
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


def _undecided(case: Case) -> tuple[Fact, ...]:
    """What keeps it from a verdict, and "seems_different"."""
    return (*_weakness(case), *((fact("seems_different"),) if case.seems_different else ()))


RULES = (
    Rule(Verdict.NOT_MEASURABLE, _not_measurable, _no_second_copy),
    Rule(Verdict.HIGHER, _higher, _within_margin),
    Rule(Verdict.LOWER, _lower, _within_margin),
    Rule(Verdict.EQUIVALENT, _equivalent),
    Rule(Verdict.INCONCLUSIVE, _inconclusive, _undecided),
)
"""Tried in this order; the first that holds is the verdict."""
