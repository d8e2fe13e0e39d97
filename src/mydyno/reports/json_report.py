"""summary.json with its sentences: what programs read."""

from __future__ import annotations

from mydyno.evaluation.answer import answer_of
from mydyno.evaluation.full_sentences import long_form
from mydyno.model.stored.worded import WordedEffect, WordedSummary
from mydyno.reports.format import ReportFormat
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.effects import sentence_of
from mydyno.wording.stored_result import StoredResult


def write(folder: StudyFolder) -> str:
    """The summary as JSON text; of a study that has none, one without effects that says so in its state."""
    return worded_summary(StoredResult.load(folder)).model_dump_json(by_alias=True, indent=1) + "\n"


def worded_summary(result: StoredResult) -> WordedSummary:
    """The summary with its sentences."""
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


FORMAT = ReportFormat("json", "summary.json with its sentences: effects, verdicts, every run's values", write)
