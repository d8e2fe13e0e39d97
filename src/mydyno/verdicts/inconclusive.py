"""Inconclusive: the data allow a difference and none. Always holds; tried last.

The sentence says what the difference could be, why nothing is claimed where the interval alone would claim it, and
about how many blocks would decide. More blocks belong to a fresh study: adding them after a look at the effect, until
it is significant, finds "differences" between identical arms in 21.8 % of experiments.
"""

from __future__ import annotations

from mydyno.stats.power import MOST_BLOCKS, minimum_blocks
from mydyno.stats.signflip import smallest_p
from mydyno.verdicts.case import Case, Rule
from mydyno.verdicts.effect import Verdict
from mydyno.verdicts.words import at_load, blocks, caveats, margin, p_value, percent, phrase, signed, where


def holds(case: Case) -> bool:
    """Always: what no other rule claims is inconclusive."""
    return case is not None


def sentence(case: Case) -> str:
    """What the difference could be, what keeps it from more, and about how many more blocks would decide."""
    interval = case.contrast.interval
    subject = f"the difference in {phrase(case.metric).noun} between {case.arm} and {case.control}"
    scope = f"{at_load(case.scope)}{where(case.scope, case.paired.n)}"
    if interval.low is None or interval.high is None:
        only = signed(case.paired.ratio or 1.0)
        claim = f"Inconclusive: {subject}{scope} was {only} in the only block, without an interval"
    else:
        claim = f"Inconclusive: {subject} could be {signed(interval.low)} to {signed(interval.high)}{scope}"
    clauses = [claim, weakness(case), remedy(case)]
    return "; ".join(clause for clause in clauses if clause) + f".{caveats(case)}"


def weakness(case: Case) -> str:
    """What keeps an interval on one side of 1 from being a difference; empty where the interval itself is undecided."""
    n, p = case.paired.n, case.contrast.p_adjusted_sign_flip
    if case.too_few_blocks:
        fewest = minimum_blocks(1, case.alpha)
        verb = "allows" if n == 1 else "allow"
        smallest = p_value(smallest_p(n))
        return f"{blocks(n)} {verb} no p below {smallest}: at least {fewest} are needed to claim a difference"
    if not case.contrast.interval.excludes_no_change():
        return ""
    if not case.sign_flip_agrees and p is not None:
        return f"the sign-flip test does not agree (adjusted p = {p_value(p)}), and the weaker answer counts"
    if not case.above_floor and case.noise.floor is not None:
        return f"it is not above the noise floor of {percent(case.noise.floor - 1.0)}, so it is not called a difference"
    return ""


def remedy(case: Case) -> str:
    """About how many more blocks would decide; empty where one block leaves no spread to plan from."""
    needed = case.blocks_needed()
    if needed is None:
        return ""
    if needed >= MOST_BLOCKS:
        return f"no practical number of blocks decides within ±{margin(case.margin)}: reduce the noise"
    more = needed - case.paired.n
    extra = "1 more block" if more == 1 else f"{more} more blocks"
    verb = "is" if more == 1 else "are"
    return f"about {extra} ({needed} in a fresh study) {verb} needed for ±{margin(case.margin)}"


RULE = Rule(Verdict.INCONCLUSIVE, holds, sentence)
