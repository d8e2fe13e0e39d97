"""Inconclusive: the interval contains both a difference and no difference. Always holds; tried last.

The sentence has the interval, what keeps it from a verdict where the interval alone would allow one, the size of
difference that this study can show, and about how many blocks would decide.
"""

from __future__ import annotations

from mydyno.model.metrics import phrase_of
from mydyno.stats.power import MOST_BLOCKS, minimum_blocks, planned_exact_look
from mydyno.verdicts.case import Case, Rule
from mydyno.verdicts.effect import Verdict
from mydyno.verdicts.words import at_load, blocks, caveats, margin, p_value, percent, signed, where


def holds(case: Case) -> bool:
    """Always: what no other rule claims is inconclusive."""
    return case is not None


def sentence(case: Case) -> str:
    """What the difference could be, what this study can show, and about how many more blocks would decide."""
    interval = case.interval
    noun = phrase_of(case.metric.name, (case.scope.workload,)).noun
    subject = f"the difference in {noun} between {case.arm} and {case.control}"
    scope = f"{at_load(case.scope)}{where(case.scope, case.n)}"
    if interval.low is None or interval.high is None:
        only = signed(case.estimate.ratio or 1.0)
        claim = f"Inconclusive: {subject}{scope} was {only} in the only block, without an interval"
    else:
        claim = f"Inconclusive: {subject} is between {signed(interval.low)} and {signed(interval.high)}{scope}"
    clauses = [claim, weakness(case), ability(case), remedy(case)]
    return "; ".join(clause for clause in clauses if clause) + f".{caveats(case)}"


def weakness(case: Case) -> str:
    """What keeps an interval on one side of 1 from being a difference; empty if the interval itself is undecided."""
    if not case.due:
        after = case.look_after
        return f"no verdict before the look at {after} blocks" if after is not None else "no verdict between looks"
    if case.too_few_blocks:
        return _too_few(case)
    p = case.p_adjusted_permutation
    if not case.interval.excludes_no_change():
        if case.permutation_agrees and p is not None:
            return f"the permutation test alone finds a difference (adjusted p = {p_value(p)}), the interval does not"
        return ""
    if not case.permutation_agrees and p is not None:
        return f"the interval alone finds a difference, the permutation test does not (adjusted p = {p_value(p)})"
    if not case.beyond_copies and case.copies_differ is not None:
        return f"two copies of {case.noise_of} differ by as much"
    return ""


def _too_few(case: Case) -> str:
    n, labels = case.n, max(case.labels, default=2)
    needed = planned_exact_look(case.looks, case.contrasts, n, labels) if case.looks else None
    fewest = needed or minimum_blocks(case.contrasts, case.alpha, labels)
    return f"{blocks(n)} cannot give a p of {case.alpha:g} or less: {fewest} are needed to claim a difference"


def ability(case: Case) -> str:
    """The smallest difference that this study can show, from the half-width; empty without an interval."""
    return "" if case.half_width is None else f"this study can show ≥ {percent(case.half_width)}"


def remedy(case: Case) -> str:
    """About how many more blocks would decide; empty if one block leaves no spread to plan from."""
    needed = case.blocks_needed()
    if needed is None:
        return ""
    if needed >= MOST_BLOCKS:
        number = "no look" if case.looks else "no practical number of blocks"
        return f"{number} decides within ±{margin(case.margin)} with this noise"
    more = needed - case.n
    extra = "1 more block" if more == 1 else f"{more} more blocks"
    where_to = f"up to the look at {needed}" if case.looks else f"{needed} in a new study"
    aim = "to show a difference of this size" if case.seems_different else f"for ±{margin(case.margin)}"
    return f"about {extra} ({where_to}) {'is' if more == 1 else 'are'} needed {aim}"


RULE = Rule(Verdict.INCONCLUSIVE, holds, sentence)
