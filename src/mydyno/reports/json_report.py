"""summary.json with its sentences: what programs read."""

from __future__ import annotations

from mydyno.evaluation.worded import worded_summary
from mydyno.reports.format import ReportFormat
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.stored_result import StoredResult


def write(folder: StudyFolder) -> str:
    """The summary as JSON text; of a study that has none, one without effects that says so in its state."""
    return worded_summary(StoredResult.load(folder)).model_dump_json(by_alias=True, indent=1) + "\n"


FORMAT = ReportFormat("json", "summary.json with its sentences: effects, verdicts, every run's values", write)
