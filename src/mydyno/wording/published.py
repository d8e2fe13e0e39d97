"""Published studies beside this one, in words: what each answer rests on."""

from __future__ import annotations

from mydyno.model.stored.summary import ConclusionRecord, EffectRecord, PublishedEntry
from mydyno.results.published.conclusions import AnsweredConclusion, Because, Figure, Value
from mydyno.results.published.figures import ComparedFigure
from mydyno.stats.agreement import Comparison
from mydyno.stats.tost import FEWEST_BLOCKS
from mydyno.wording.next_steps import NO_FULL_LINK

TREATMENT_NAMES = {"tls": "TLS"}
"""Treatments that sentences do not call by their key."""
AS_QUERIES = "published as TPS, which has the same ratio"
WHOLE_SWEEP = "the largest over the sweep, in both studies"
BECAUSE = {
    "alarm": "{alarm}",
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


def conclusion_record(one: AnsweredConclusion) -> ConclusionRecord:
    """The conclusion as summary.json has it."""
    because = "; ".join(map(_fact, one.because))
    return ConclusionRecord(study=one.study, part=one.part, claim=one.claim, answer=one.answer.value, because=because)


def published_entry(one: ComparedFigure) -> PublishedEntry:
    """The figure as summary.json has it."""
    because = NO_FULL_LINK if one.comparison is None else _comparison(one.comparison)
    notes = [one.figure.table]
    if one.figure.connections is None:
        notes.append(WHOLE_SWEEP)
    if one.figure.as_queries:
        notes.append(AS_QUERIES)
    return one.entry.model_copy(update={"because": because, "note": "; ".join(notes)})


def _fact(one: Because) -> str:
    values = {name: _value(name, value) for name, value in one.values.items()}
    return BECAUSE[one.fact].format(**values)


def _value(name: str, value: Value) -> str:
    match value:
        case Figure():
            return _figure(value)
        case EffectRecord():
            return _effect(value)
        case Comparison():
            return _comparison(value)
        case float():
            return f"{value * 100:.1f} %"
        case int() if name == "connections":
            return "one connection" if value == 1 else f"{value} connections"
    return TREATMENT_NAMES.get(str(value), str(value)) if name == "treatment" else str(value)


def _figure(one: Figure) -> str:
    """+3.2 % [+1.0 %, +5.4 %]."""
    if one.ratio is None:
        return "not measured"
    if one.low is None or one.high is None:
        return f"{_signed(one.ratio)} in fewer than {FEWEST_BLOCKS} blocks"
    return f"{_signed(one.ratio)} {_interval(one.low, one.high)}"


def _effect(one: EffectRecord) -> str:
    size = "no estimate" if one.ratio is None else _signed(one.ratio)
    if one.ci_low is not None and one.ci_high is not None:
        size = _figure(Figure(one.ratio, one.ci_low, one.ci_high))
    return f"{one.arm} against {one.control} at {one.step}: {size}, {str(one.verdict).replace('_', ' ')}"


def _comparison(one: Comparison) -> str:
    """The fact that a comparison of ratios rests on."""
    published, ours = (_tenfold(one.published), f"[{_tenfold(one.low)}, {_tenfold(one.high)}]")
    match one.because:
        case "exploratory":
            return "the metric is exploratory in this study, so nothing was decided"
        case "undecided":
            return f"this study's own verdict is {one.verdict.replace('_', ' ')}"
        case "both within":
            within = f"±{one.margin:.1%}".replace("%", " %")
            return f"both are within {within}: here {ours}"
        case "equivalent":
            return f"the published {published} lies outside {ours}, equivalent here"
        case "contains both":
            return f"the interval {ours} contains the published {published} and no change"
        case "opposite":
            return f"the published {published} points the other way: measured here {ours}, {one.verdict}"
        case "outside":
            return f"the published {published} lies outside: measured here {ours}, {one.verdict}"
        case "inside":
            return f"the published {published} lies inside {ours}, {one.verdict}"


def _tenfold(ratio: float) -> str:
    """An interval that wide shows nothing more by its digits."""
    return "more than +900 %" if ratio > 10.0 else _signed(ratio)


def _interval(low: float, high: float) -> str:
    return f"[{_signed(low)}, {_signed(high)}]"


def _signed(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %".replace("-", "−")
