"""summary.json as it is stored: what programs read."""

from __future__ import annotations

from mydyno.reports.format import ReportFormat
from mydyno.reports.result import StudyResult
from mydyno.store.study_folder import StudyFolder


def write(folder: StudyFolder) -> str:
    """The summary as JSON text; of a study that has none yet, one without effects that says so in its state."""
    return StudyResult.load(folder).summary.model_dump_json(by_alias=True, indent=1)


FORMAT = ReportFormat("json", "summary.json: effects, verdicts, every run's values", write)
