"""The summary with its sentences, as programs read it."""

from __future__ import annotations

from mydyno.model.stored.worded import WordedSummary
from mydyno.wording.full_sentences import long_form
from mydyno.wording.stored_result import StoredResult


def worded_summary(result: StoredResult) -> WordedSummary:
    """The summary with its sentences, in the present language; the long ones are English."""
    found = result.answer
    return WordedSummary(
        **dict(result.summary),
        answer=found.answer,
        further=found.further,
        scope=found.scope,
        sharpen=found.sharpen,
        sentences=long_form(result),
    )
