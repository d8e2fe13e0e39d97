"""Secondary metrics: an unadjusted interval, labelled exploratory, and none of the verdict's words."""

from __future__ import annotations

from mydyno.stats.paired import Paired
from mydyno.verdicts.effect import Metric, Scope
from mydyno.verdicts.words import at_load, level, phrase, signed, where


def sentence(metric: Metric, arm: str, control: str, scope: Scope, answer: Paired, reasons: tuple[str, ...]) -> str:
    """The ratio as a signed percentage with its interval, as far as the blocks allow one."""
    subject = f"Exploratory: {phrase(metric).noun} of {arm} against {control}"
    around = at_load(scope) + where(scope, answer.n)
    interval = answer.interval
    if answer.ratio is None:
        return f"{subject}{around}: no ratio{', because ' + '; '.join(reasons) if reasons else ''}."
    if interval.low is None or interval.high is None:
        return f"{subject} {signed(answer.ratio)}{around}; one block gives no interval."
    ends = f"[{signed(interval.low)}, {signed(interval.high)}]"
    return f"{subject} {signed(answer.ratio)} {ends}{around}; {level(interval.level)} interval, unadjusted."
