"""Not measurable here: this study cannot answer, whatever the numbers look like.

Condition, any of: arm or control failed; no valid block; more blocks lost than left; no A/A, so nothing shows that two
equal servers measure the same; A and A′ differ significantly.
"""

from __future__ import annotations

from mydyno.model.metrics import phrase_of
from mydyno.verdicts.case import Case, Rule
from mydyno.verdicts.effect import Verdict
from mydyno.verdicts.words import at_load, blocks, where


def holds(case: Case) -> bool:
    """Whether any reason keeps this contrast from an answer."""
    return bool(because(case))


def because(case: Case) -> str:
    """The first reason that applies, as a clause; empty if the contrast can be measured."""
    n, lost = case.n, sum(case.lost.values())
    gates = ", ".join(f"{reason} ({blocks(count)})" for reason, count in sorted(case.lost.items()))
    if case.failure:
        return case.failure
    if n == 0:
        return f"no block has a valid run of both arms{': ' + gates if gates else ''}"
    if lost > n:
        return f"{lost} of {lost + n} blocks are not used: {gates}"
    if case.copies_differ is None:
        return (
            f"the second copy of {case.noise_of} has no valid run, so the difference between equal servers is unknown"
        )
    return case.alarm


def sentence(case: Case) -> str:
    """That it is not measurable here, and why."""
    subject = f"{phrase_of(case.metric.name, (case.scope.workload,)).noun} of {case.arm} against {case.control}"
    count = case.tried if case.failure else case.n
    return f"Not measurable here: {subject}{at_load(case.scope)}{where(case.scope, count)}: {because(case)}."


RULE = Rule(Verdict.NOT_MEASURABLE, holds, sentence)
