"""The summary with its sentences, as programs read it."""

from __future__ import annotations

from mydyno.evaluation.answer import answer_of
from mydyno.evaluation.full_sentences import long_form
from mydyno.model.stored.worded import WordedEffect, WordedSummary
from mydyno.wording.effects import sentence_of
from mydyno.wording.stored_result import StoredResult


def worded_summary(result: StoredResult) -> WordedSummary:
    """The summary with its sentences, in the present language; what is English everywhere is so here."""
    # Analyses load numpy, and the templates of their sections.
    from mydyno.analysis.catalogue import worded_of

    summary, found = result.summary, answer_of(result)
    facts = (
        dict(summary)
        | {"effects": [WordedEffect(**dict(one), sentence=sentence_of(result, one)) for one in summary.effects]}
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
