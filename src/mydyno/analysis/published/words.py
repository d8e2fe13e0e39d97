"""Published studies beside this one, in words: what each answer rests on."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.language import agreed
from mydyno.model.stored.fact import ComparedRatio, Fact, FactEffect, FactValue, Figure
from mydyno.wording.numbers import plus_minus, ratio_interval, signed_percent, size
from mydyno.wording.verdicts import flat

SIGNED = {"agrees": "= agrees", "partly": "~ partly", "disagrees": "≠ disagrees", "cannot tell": "? undecided"}
"""The answers in a table, with a sign, so that no colour is needed to read them."""
TREATMENT_NAMES = {"tls": "TLS"}
"""Treatments that sentences do not call by their key."""
FACTS = {
    "table": "{table}",
    "whole sweep": "the largest over the sweep, in both studies",
    "as queries": "published as TPS, which has the same ratio",
    "other load": "published at {published} connections, here at {here}: another load may have another effect",
    "of the mean": "published of instance {instance}, here of the mean of the instances",
    "ratio": "{ratio}",
    "no link full": "the published ratio is that of a full link, and at this load no link was full in this study",
    "alarm": "{alarm}",
    "copies differ": "two copies of {control} differ, although they are identical",
    "sent": "{arm} at {step} sent {share} of its nominal speed",
    "no proved link": "no arm has a proved link",
    "no full link": "no link was full: the fullest was that of {arm} at {step}, {share}",
    "grew": "{arm} from {first} to {last} connections: {growth}",
    "no link full at two loads": "no arm filled its link at two loads",
    "effect": "{effect}",
    "no pair away from a full link": "no pair of arms differs in {treatment} alone away from a full link",
    "no control at a full link": (
        "no pair of arms that differ in {treatment} alone had its control at a full link; the full links were those of "
        "{full}"
    ),
    "no pair at a full link": (
        "no pair of arms that differ in {treatment} alone was together at a full link; the full links were those of "
        "{full}"
    ),
    "no pair at": "no pair of arms differs in {treatment} alone at {connections}",
    "compared": "{arm}: {ratio}",
    "grew apart": "from {low} to {high} {control} grew by {untreated}, {arm} by {treated}",
    "no growth without it": (
        "from {low} to {high} {control} grew by {untreated}, {arm} by {treated}: growth of {share} without {treatment} "
        "is not shown"
    ),
    "no two loads": "no two loads of {least} connections and more away from a full link",
}


def fact_clauses(facts: Sequence[Fact]) -> str:
    """What an answer rests on, or what is noted of a figure, as clauses in English."""
    clauses = "; ".join(
        FACTS[one.fact].format(**{name: _value(name, value) for name, value in one.values.items()}) for one in facts
    )
    return agreed(clauses)


def _value(name: str, value: FactValue) -> str:
    match value:
        case Figure():
            return _figure(value)
        case FactEffect():
            return _effect(value)
        case ComparedRatio():
            return _comparison(value)
        case float():
            return size(value)
        case int() if name == "connections":
            return "one connection" if value == 1 else f"{value} connections"
    return TREATMENT_NAMES.get(str(value), str(value)) if name == "treatment" else str(value)


def _figure(one: Figure) -> str:
    """+3.2 % (+1.0 … +5.4 %)."""
    if one.ratio is None:
        return "not measured"
    if one.low is None or one.high is None:
        from mydyno.stats.tost import FEWEST_BLOCKS  # the statistics take a third of a second to load

        return f"{_signed(one.ratio)} in fewer than {FEWEST_BLOCKS} blocks"
    return f"{_signed(one.ratio)} ({flat(ratio_interval(one.low, one.high))})"


def _effect(one: FactEffect) -> str:
    size = "no estimate" if one.ratio is None else _signed(one.ratio)
    if one.ci_low is not None and one.ci_high is not None:
        size = _figure(Figure(ratio=one.ratio, low=one.ci_low, high=one.ci_high))
    return f"{one.arm} against {one.control} at {one.step}: {size}, {one.verdict.replace('_', ' ')}"


def _comparison(one: ComparedRatio) -> str:
    """The fact that a comparison of ratios rests on."""
    published, ours = _signed(one.published), flat(ratio_interval(one.low, one.high))
    match one.because:
        case "exploratory":
            return "the metric is exploratory in this study, and its interval does not decide"
        case "undecided":
            return f"this study's own verdict is {one.verdict.replace('_', ' ')}"
        case "both within":
            return f"both are within {plus_minus(one.margin)}: here {ours}"
        case "equivalent":
            return f"the published {published} lies outside {ours}, equivalent here"
        case "contains both":
            return f"the interval {ours} contains the published {published} and no change"
        case "opposite":
            return f"the published {published} points the other way: measured here {ours}, {one.verdict}"
        case "near":
            return f"the published {published} is within {plus_minus(one.margin)} of what was measured here: {ours}"
        case "another size":
            return f"the same direction, another size: published {published}, measured here {ours}"
        case "outside":
            return f"the published {published} lies outside: measured here {ours}, {one.verdict}"
        case "inside":
            return f"the published {published} lies inside {ours}, {one.verdict}"


def _signed(ratio: float) -> str:
    return flat(signed_percent(ratio - 1))
