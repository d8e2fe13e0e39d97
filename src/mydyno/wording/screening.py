"""The answer of a screening study: which variables matter, by how much, and what is mixed into the effects."""

from __future__ import annotations

from mydyno.language import joined, tr, tr_plural
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
        next_step = tr("Next, all combinations of the strongest: {command}.", command=command)
        found.append(f"{mixed_words(first)} {next_step}")
    return found


def _active(record: ScreenRecord, summary: Summary) -> str:
    count = len(record.factors)
    where = tr(" at {step}", step=record.step) if len(summary.screening) > 1 else ""
    facts = {"all": count, "noun": phrase_of(record.metric).short_noun, "where": where}
    if record.copies_differ:
        why = alarm_words(record, summary.control)
        return tr("No variable is called active: {why}, although they are identical.", why=why)
    active = sorted((one for one in record.factors if one.active), key=_strength, reverse=True)
    if not active:
        return tr(
            "None of the {all} variables is shown to change {noun}{where}: {why}.", **facts, why=hidden_words(record)
        )
    named = [factor_words(one) for one in active[:MOST_NAMED]]
    if len(active) > MOST_NAMED:
        named.append(tr("{count} more in the table", count=len(active) - MOST_NAMED))
    return tr_plural(
        "{count} of {all} variables matters for {noun}{where}: {named}.",
        "{count} of {all} variables matter for {noun}{where}: {named}.",
        len(active), **facts, named=joined(named),
    )  # fmt: skip


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
    return words + tr(
        "{size} (between {low} and {high})",
        size=signed(one.ratio - 1), low=signed(one.ci_low - 1), high=signed(one.ci_high - 1),
    )  # fmt: skip


def hidden_words(record: ScreenRecord) -> str:
    """How large an effect must be to be seen here."""
    factor = record.factors[0]
    if factor.ci_low is None or factor.ci_high is None:
        return tr("one block gives no interval")
    half = (factor.ci_high / factor.ci_low) ** 0.5 - 1
    return tr("effects below about {width} are hidden by the noise", width=half_width_text(half))


def mixed_words(record: ScreenRecord) -> str:
    """What is aliased, for all variables together."""
    wholly = [one for one in record.factors if one.aliases]
    if wholly:
        return tr(
            "An effect may be that of an interaction of two other variables, which this design does not separate "
            "from it; "
            "the report names them."
        )
    part = max(one.largest_part for one in record.factors)
    if part > 0:
        return tr("Up to {share} of each interaction of two other variables is in an effect.", share=size(part))
    return tr("Interactions of two variables are not in these effects.")
