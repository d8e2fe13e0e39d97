"""Verdicts in tables and charts: words, signs, classes of colour, and what stands beside them: why one is undecided or
not measurable, and what weakens it.
"""

from __future__ import annotations

from collections.abc import Collection

from mydyno.language import agreed
from mydyno.model.metrics import COST_METRIC
from mydyno.model.stored.reasons import Fact
from mydyno.model.stored.summary import EffectRecord
from mydyno.results.precision import MOST_PROMISED, failed_arm
from mydyno.results.values.doubts import found_less
from mydyno.wording.numbers import (
    NARROW_SPACE,
    NONE,
    blocks,
    display_unit,
    margin_text,
    metric_name,
    p_value,
    ratio_interval,
    size,
)
from mydyno.wording.reasons import NO_PAIR, alarm_clause, failure_of, lost_blocks, recorded_failure
from mydyno.wording.stored_result import StoredResult

WORDS = {
    "higher": "higher",
    "lower": "lower",
    "equivalent": "equivalent",
    "inconclusive": "inconclusive",
    "not_measurable": "not measurable",
    "failed": "failed",
}
"""Each verdict in a table."""
SYMBOLS = {"higher": "▲", "lower": "▼", "equivalent": "≈", "inconclusive": "?", "not_measurable": "∅", "failed": "✕"}
NO_ESTIMATE = "no estimate"


def column_name(metric: str, workloads: Collection[str] = ()) -> str:
    """The heading of a metric's column, short."""
    return "CPU per query" if metric == COST_METRIC else metric_name(metric, workloads)


def sign_and_word(verdict: str | None) -> str:
    """A verdict in a chart; empty without one."""
    return f"{SYMBOLS[verdict]} {WORDS[verdict]}" if verdict else ""


def verdict_word(result: StoredResult, effect: EffectRecord) -> str:
    """The effect's verdict, or "failed" where the arm or its control failed; empty if it has none."""
    if failure_of(result.summary, effect):
        return "failed"
    return effect.verdict or ""


def verdict_text(result: StoredResult, effect: EffectRecord) -> str:
    """The same in words; where it was not the arm that failed, with who did."""
    word = verdict_word(result, effect)
    failed = failed_arm(result.summary, effect) if word == "failed" else effect.arm
    return f"{failed} failed" if failed != effect.arm else WORDS[word] if word else ""


def merit(result: StoredResult, effect: EffectRecord) -> str:
    """The CSS class of a verdict: better, worse, or neither; what comes from less work is neither."""
    word = verdict_word(result, effect)
    if word != "inconclusive" and found_less(result.summary.found, effect):
        return "neutral"
    metric = result.summary.metrics.get(effect.metric)
    return merit_of(word, metric.better if metric else "none")


def merit_of(word: str | None, better: str) -> str:
    """The CSS class of a verdict on a metric of which that is better."""
    if word in ("higher", "lower"):
        return "neutral" if better == "none" else "better" if better == word else "worse"
    return {"equivalent": "same", "inconclusive": "open", "failed": "failed"}.get(word or "", "none")


def absolute(result: StoredResult, metric: str, step: str, arm: str, digits: int = 3) -> str:
    """An arm's absolute value with its unit."""
    level = result.level_of(metric, step, arm)
    known = result.summary.metrics.get(metric)
    return NONE if level is None else display_unit(metric, level, known.unit if known else "").text(level, digits)


def flat(text: str) -> str:
    """Text for a terminal: a narrow no-break space becomes a normal one."""
    return text.replace(NARROW_SPACE, " ").replace("\u00a0", " ")


WEAKNESSES = {
    "before_look": "no verdict before the interim analysis at {after} blocks",
    "between_looks": "no verdict between interim analyses",
    "few_blocks": "{n} cannot give a p of {alpha:g} or less: {fewest} are needed to claim a difference",
    "permutation_alone": "the permutation test alone finds a difference (adjusted p = {p}), the interval does not",
    "interval_alone": "the interval alone finds a difference, the permutation test does not (adjusted p = {p})",
    "may_last": "an effect that lasts longer than a slice is in all arms",
    "copies_differ": "two copies of {copied} differ by as much",
}
"""What keeps an interval on one side of 1 from being a difference, by the fact of an inconclusive effect."""


def note_of(effect: EffectRecord, margin: float) -> str:
    """Clauses on an effect with this margin; empty if its interval says everything."""
    details = effect.details
    match effect.verdict:
        case "not_measurable":
            return agreed(_obstacle(effect))
        case None:
            return "" if effect.ratio else ", ".join(filter(None, (recorded_failure(effect), *lost_blocks(details))))
        case "inconclusive":
            notes = [_weakness(effect), _ability(effect)]
        case "equivalent":
            own = ratio_interval(details.equivalence_low, details.equivalence_high)
            notes = [f"{own} for the comparison by itself"] if own else []
        case _:
            notes = [f"within {margin_text(margin)}"] if _fact(effect, "within_margin") else []
    if lost := sum(details.lost.values()):
        notes.append(f"{blocks(lost)} of {lost + effect.n} not used: {', '.join(lost_blocks(details))}")
    if details.skewed:
        notes.append("block differences are skewed: the interval may be too narrow")
    if details.half_width == 0.0:
        notes.append("every block has exactly the same ratio, so the interval has no width")
    if details.copied:
        notes.append(f"the A/A comparison is that of {details.copied}")
    return agreed("; ".join(filter(None, notes)))


def _fact(effect: EffectRecord, *names: str) -> Fact | None:
    """The first of its facts that is one of these."""
    return next((one for one in effect.details.facts if one.fact in names), None)


def _copied(effect: EffectRecord) -> str:
    """The arm that every block runs twice."""
    return effect.details.copied or effect.control


def _weakness(effect: EffectRecord) -> str:
    found = _fact(effect, *WEAKNESSES)
    if found is None:
        return ""
    own = {"n": blocks(effect.n), "p": p_value(effect.details.p_adjusted_permutation), "copied": _copied(effect)}
    return WEAKNESSES[found.fact].format(**own, **found.values)


def _ability(effect: EffectRecord) -> str:
    """What such a study can show; empty where its noise is too large for a promise."""
    half, found = effect.details.half_width, effect.details.detectable
    promised = found is not None and half is not None and half <= MOST_PROMISED
    return f"such a study finds a true difference of {size(found or 0.0)} with 80 % power" if promised else ""


def _obstacle(effect: EffectRecord) -> str:
    """Why the contrast cannot be measured."""
    details, n, lost = effect.details, effect.n, sum(effect.details.lost.values())
    checks = ", ".join(f"{reason} ({blocks(count)})" for reason, count in sorted(details.lost.items()))
    if details.failure:
        return recorded_failure(effect)
    if n == 0:
        return f"{NO_PAIR}{': ' + checks if checks else ''}"
    if lost > n:
        return f"{lost} of {lost + n} blocks are not used: {checks}"
    if _fact(effect, "no_second_copy"):
        return f"the second copy of {_copied(effect)} has no valid run: the difference between equal servers is unknown"
    return alarm_clause(details.alarm)
