"""Every comparison with a verdict as one sentence, and what limits the verdicts: the long form of the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mydyno.language import agreed
from mydyno.model.stored.summary import RunSummary
from mydyno.wording.effects import sentence_of
from mydyno.wording.hosts import hosts_sentences
from mydyno.wording.numbers import blocks
from mydyno.wording.stored_result import StoredResult

NOT_EVALUATED = (
    "This study has no summary yet: it was interrupted before its first evaluation, so there are no effects to report."
)
SETTING_TREATMENTS = ("variables", "environment", "sysctl")
"""Treatments of which the server or the kernel may take another value than the one set."""


def full_sentences(result: StoredResult) -> tuple[str, ...]:
    """What is decided first, then the rest of the long form."""
    judged = [effect for effect in result.summary.effects if effect.verdict]
    if result.before_first_look:
        return tuple(dict.fromkeys(what_limits(result)))
    decided = [sentence_of(result, one) for one in judged if one.verdict in ("higher", "lower", "equivalent")]
    return tuple(dict.fromkeys((*decided, *long_form(result), *(sentence_of(result, one) for one in judged))))


def long_form(result: StoredResult) -> tuple[str, ...]:
    """The primary metric's sentences, then what limits them; in English."""
    return (*(sentence_of(result, one) for one in result.summary.effects if one.primary), *what_limits(result))


def what_limits(result: StoredResult) -> tuple[str, ...]:
    """What limits the verdicts, then what analyses add, and several hosts; in English."""
    if not result.evaluated:
        return (NOT_EVALUATED,)
    from mydyno.analysis.catalogue import sentences_of  # takes long to load
    from mydyno.results.families import first_label
    from mydyno.stats.power import minimum_blocks  # the same

    summary, experiment, plan = result.summary, result.study.experiment, result.plan
    runs = summary.runs
    sentences = []
    if len(experiment.arms) == 1 and not summary.capacities:
        sentences.append(
            f"{experiment.control} is the only arm: this study shows its noise floor and compares nothing."
        )
    invalid = [run for run in runs if not run.valid]
    if invalid:
        causes = Counter(first_label(run.reasons) for run in invalid)
        words = ", ".join(f"{cause} ({count})" for cause, count in causes.most_common())
        sentences.append(agreed(f"{len(invalid)} of {len(runs)} runs are invalid and not used: {words}."))
        sentences += _settings_not_taken(invalid)
    if len(runs) < len(plan.runs):
        made = agreed(f"{len(runs)} of {len(plan.runs)} planned runs were made")
        sentences.append(f"{made}; mydyno resume {summary.study} makes the rest.")
    contrasts = sum(effect.primary for effect in summary.effects)
    fewest = minimum_blocks(max(1, contrasts))
    if len(plan.blocks) < fewest and contrasts and experiment.design.time is None:
        sentences.append(f"{blocks(len(plan.blocks))} cannot show a difference: at least {fewest} are needed.")
    return tuple(map(agreed, (*sentences, *sentences_of(result), *hosts_sentences(summary))))


def _settings_not_taken(invalid: Sequence[RunSummary]) -> list[str]:
    """What server or kernel made of settings that it rounded, clipped or ignored: a sentence per arm and setting."""
    sentences = (
        f"{run.arm} does not run with the settings that it declares: {one.text}."
        for run in invalid
        for one in run.evidence
        if not one.holds and one.treatment in SETTING_TREATMENTS
    )
    return list(dict.fromkeys(sentences))
