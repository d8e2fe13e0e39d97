"""Every comparison with a verdict as one sentence: the study's own in English, else made from the figures."""

from __future__ import annotations

from mydyno.language import comma, current_language, percent_sign, tr, tr_plural
from mydyno.model.stored.summary import EffectRecord
from mydyno.wording.numbers import NARROW_SPACE, level_percent, p_value, percent, signed_percent
from mydyno.wording.stored_result import StoredResult
from mydyno.wording.verdict_table import NO_ESTIMATE, step_heading, verdict_text


def full_sentences(result: StoredResult) -> tuple[str, ...]:
    """The sentences in the order of the effects. summary.json has them in English, so others are made anew."""
    if current_language() == "en":
        return result.sentences
    if result.before_first_look:
        return ()
    return tuple(_sentence(result, effect) for effect in result.summary.effects if effect.verdict)


def _sentence(result: StoredResult, effect: EffectRecord) -> str:
    step = next((step for step in result.steps if step.id == effect.step), None)
    of = tr("{arm} against {control}", arm=effect.arm, control=effect.control)
    where = comma(
        filter(None, (result.metric_name(effect.metric), step_heading(result, step) if step else effect.step))
    )
    word = verdict_text(result, effect)
    facts = [_figure(result, effect), tr_plural("{count} block", "{count} blocks", effect.n)]
    if effect.p is not None:
        facts.append(tr("p {value}", value=p_value(effect.p)))
    if effect.verdict == "equivalent":
        facts.append(tr("margin {margin}", margin=f"±{percent(result.margin_of(effect.metric) or 0.0)}"))
    return tr("{contrast} ({where}): {verdict}. {facts}.", contrast=of, where=where, verdict=word, facts=comma(facts))


def _figure(result: StoredResult, effect: EffectRecord) -> str:
    if effect.ratio is None:
        return tr(NO_ESTIMATE)
    size = signed_percent(effect.ratio - 1)
    if effect.ci_low is None or effect.ci_high is None:
        return size
    low, high = signed_percent(effect.ci_low - 1), signed_percent(effect.ci_high - 1)
    return tr(
        "{size} ({level} interval {low} to {high})",
        size=size, level=level_percent(result.summary.alpha),
        low=low.removesuffix(percent_sign(NARROW_SPACE)), high=high,
    )  # fmt: skip
