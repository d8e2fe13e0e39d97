"""The answer of a screening study: which variables matter, by how much, and what is mixed into the effects."""

from __future__ import annotations

from mydyno.language import agreed
from mydyno.model.definition.experiment import ScreenSpec
from mydyno.model.metrics import phrase_of
from mydyno.model.stored.screening import ScreenedFactor, ScreenRecord
from mydyno.model.stored.summary import Summary
from mydyno.results.follow_up import FOLLOW_UP_FILE
from mydyno.wording.numbers import half_width_text, signed, size

MOST_NAMED = 4


def screening_sentences(summary: Summary) -> list[str]:
    """What matters at each step; then what to do next."""
    found = [_active(record, summary) for record in summary.screening]
    first = next((record for record in summary.screening if record.follow_up), None)
    if first is not None:
        command = f"`mydyno run studies/{summary.study}/{FOLLOW_UP_FILE}`"
        next_step = f"Next, all combinations of the strongest: {command}."
        found.append(f"{mixed_words(first)} {next_step}")
    return found


def _active(record: ScreenRecord, summary: Summary) -> str:
    count = len(record.factors)
    where = f" at {record.step}" if len(summary.screening) > 1 else ""
    facts = {"all": count, "noun": phrase_of(record.metric).short_noun, "where": where}
    if record.copies_differ:
        why = alarm_words(record, summary.control)
        return f"No variable is called active: {why}, although they are identical."
    active = sorted((one for one in record.factors if one.active), key=_strength, reverse=True)
    if not active:
        return agreed(
            "None of the {all} variables is shown to change {noun}{where}: {why}.".format(
                **facts, why=hidden_words(record)
            )
        )
    named = [factor_words(one) for one in active[:MOST_NAMED]]
    if len(active) > MOST_NAMED:
        named.append(f"{len(active) - MOST_NAMED} more in the table")
    return agreed(
        "{count} of {all} variables {WORD__} for {noun}{where}: {named}.".format(
            **facts, named="; ".join(named), count=len(active), WORD__="matters" if len(active) == 1 else "matter"
        )
    )


def alarm_words(record: ScreenRecord, control: str) -> str:
    """Why no variable is called active, in English; empty if the copies do not differ."""
    return f"the two copies of {control} differ at {record.step}" if record.copies_differ else ""


def design_words(record: ScreenRecord, spec: ScreenSpec) -> str:
    """E.g. "Plackett–Burman, 12 runs"; in English."""
    kind = "definitive screening" if spec.design == "definitive" else "Plackett–Burman"
    return f"{kind}{' with foldover' if spec.foldover else ''}, {record.runs} runs"


def _strength(one: ScreenedFactor) -> float:
    return max(one.ratio, 1 / one.ratio)


def factor_words(one: ScreenedFactor) -> str:
    """E.g. "innodb_flush_log_at_trx_commit, 1 → 2: +35 % (between +30 % and +40 %)"."""
    words = f"{one.name}, {one.first} → {one.last}: "
    if one.ci_low is None or one.ci_high is None:
        return words + signed(one.ratio - 1)
    return words + f"{signed(one.ratio - 1)} (between {signed(one.ci_low - 1)} and {signed(one.ci_high - 1)})"


def hidden_words(record: ScreenRecord) -> str:
    """How large an effect must be to be seen here."""
    factor = record.factors[0]
    if factor.ci_low is None or factor.ci_high is None:
        return "one block gives no interval"
    half = (factor.ci_high / factor.ci_low) ** 0.5 - 1
    return f"effects below about {half_width_text(half)} are hidden by the noise"


def mixed_words(record: ScreenRecord) -> str:
    """What is aliased, for all variables together."""
    wholly = [one for one in record.factors if one.aliases]
    if wholly:
        return (
            "An effect may be that of an interaction of two other variables, which this design does not "
            "separate from it; the report names them."
        )
    part = max(one.largest_part for one in record.factors)
    if part > 0:
        return f"Up to {size(part)} of each interaction of two other variables is in an effect."
    return "Interactions of two variables are not in these effects."
