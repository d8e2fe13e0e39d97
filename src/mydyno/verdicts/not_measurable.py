"""Not measurable here: this study cannot answer, whatever the numbers look like.

Condition, any of: no valid block; more blocks lost to gates than left; no A/A, so the noise is unknown; A and A′ differ
significantly; the A/A floor is above the margin and the effect is not above the floor. An effect beyond the floor stays
measurable on a noisy host: halving the throughput needs no quiet one.
"""

from __future__ import annotations

from math import log

from mydyno.verdicts.case import Case, Rule
from mydyno.verdicts.effect import Verdict
from mydyno.verdicts.words import at_load, blocks, margin, percent, phrase, where


def holds(case: Case) -> bool:
    """Whether any reason keeps this contrast from an answer."""
    return bool(because(case))


def because(case: Case) -> str:
    """The first reason that applies, as a clause; empty if the contrast can be measured."""
    n, lost = case.paired.n, sum(case.lost.values())
    gates = ", ".join(f"{reason} ({blocks(count)})" for reason, count in sorted(case.lost.items()))
    if n == 0:
        return f"no block has a valid run of both arms{': ' + gates if gates else ''}"
    if lost > n:
        return f"{lost} of {lost + n} blocks do not count: {gates}"
    if case.noise.floor is None:
        return f"the second copy of {case.noise_of} has no valid run, so the noise floor is unknown"
    if case.alarm:
        return case.alarm
    if log(case.noise.floor) > log(1.0 + case.margin) and not case.above_floor:
        return (
            f"two runs of {case.noise_of} itself typically differ by {percent(case.noise.floor - 1.0)}, "
            f"more than the margin of {margin(case.margin)}"
        )
    return ""


def sentence(case: Case) -> str:
    """That it is not measurable here, and why."""
    subject = f"{phrase(case.metric).noun} of {case.arm} against {case.control}"
    return f"Not measurable here: {subject}{at_load(case.scope)}{where(case.scope, case.paired.n)}; {because(case)}."


RULE = Rule(Verdict.NOT_MEASURABLE, holds, sentence)
