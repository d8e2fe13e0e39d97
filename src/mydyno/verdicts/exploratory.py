"""Metrics without a verdict: an unadjusted interval, labelled exploratory, and none of the verdict's words."""

from __future__ import annotations

from mydyno.model.metrics import phrase_of
from mydyno.verdicts.effect import Effect, Metric, Scope
from mydyno.verdicts.words import at_load, signed, where


def sentence(effect: Effect, metric: Metric, scope: Scope) -> str:
    """The ratio as a signed percentage with its interval, as far as the blocks allow one."""
    subject = f"Exploratory: {phrase_of(metric.name, (scope.workload,)).noun} of {effect.arm} against {effect.control}"
    around = at_load(scope) + where(scope, effect.n)
    if effect.ratio is None:
        return f"{subject}{around}: no ratio{': ' + ', '.join(effect.reasons) if effect.reasons else ''}."
    if effect.ci_low is None or effect.ci_high is None:
        return f"{subject} {signed(effect.ratio)}{around}; one block gives no interval."
    return f"{subject} {signed(effect.ratio)} [{signed(effect.ci_low)}, {signed(effect.ci_high)}]{around}."
