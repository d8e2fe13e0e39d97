"""The summary with its sentences, as programs read it."""

from __future__ import annotations

from mydyno.evaluation.answer import answer_of
from mydyno.model.stored.worded import (
    WordedConclusion,
    WordedEffect,
    WordedFigure,
    WordedLimit,
    WordedSummary,
)
from mydyno.wording.effects import sentence_of
from mydyno.wording.full_sentences import long_form
from mydyno.wording.limits import limit_sentence
from mydyno.wording.published import fact_clauses
from mydyno.wording.stored_result import StoredResult


def worded_summary(result: StoredResult) -> WordedSummary:
    """The summary with its sentences, in the present language; what is English everywhere is so here."""
    # Analyses load numpy, and the templates of their sections.
    from mydyno.analysis.catalogue import worded_of

    summary, experiment, found = result.summary, result.study.experiment, answer_of(result)
    steps = {step.id: step for step in experiment.resolved_steps}
    facts = (
        dict(summary)
        | {
            "effects": [WordedEffect(**dict(one), sentence=sentence_of(result, one)) for one in summary.effects],
            "limits": [
                WordedLimit(**dict(one), sentence=limit_sentence(one, steps[one.step])) for one in summary.limits
            ],
            "conclusions": [
                WordedConclusion(**dict(one), because=fact_clauses(one.facts)) for one in summary.conclusions
            ],
            "published": [
                WordedFigure(**dict(one), because=fact_clauses(one.facts), note=fact_clauses(one.notes))
                for one in summary.published
            ],
        }
        | worded_of(result)
    )
    return WordedSummary(
        **facts,
        answer=found.answer,
        further=found.further,
        scope=found.scope,
        sharpen=found.sharpen,
        sentences=long_form(result),
    )
