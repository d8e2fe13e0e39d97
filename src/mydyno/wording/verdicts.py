"""Verdicts in tables and charts: words, signs, classes of colour, and what stands beside them."""

from __future__ import annotations

from collections.abc import Collection

from mydyno.model.metrics import COST_METRIC
from mydyno.model.stored.summary import EffectRecord
from mydyno.results.precision import failed_arm
from mydyno.results.values.found import found_less
from mydyno.wording.numbers import NARROW_SPACE, NONE, display_unit, metric_name
from mydyno.wording.reasons import failure_of
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
