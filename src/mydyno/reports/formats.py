"""What a report format is; and those that need no file of their own: a page, and the summary with its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mydyno.evaluation.answer import answer_of
from mydyno.files.atomic import write_text
from mydyno.model.stored.summary import PrintedSummary
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.stored_result import StoredResult


@dataclass(frozen=True, slots=True)
class ReportFormat:
    """One way to print a study. `write` gives text for standard output, or the path of the file it wrote."""

    name: str
    description: str
    write: Callable[[StudyFolder], str | Path]


def write_page(folder: StudyFolder) -> Path:
    """Write report.html (under a temporary name, then renamed) and return its path."""
    from mydyno.reports.page import render_page  # templates and telemetry are heavy: only when a page is made

    path = folder.path / "report.html"
    write_text(path, render_page(folder))
    return path


def json_text(folder: StudyFolder) -> str:
    """The summary as JSON text; of a study that has none, one without effects that says so in its state."""
    return printed_summary(StoredResult.load(folder)).model_dump_json(by_alias=True, indent=1) + "\n"


def printed_summary(result: StoredResult) -> PrintedSummary:
    """The summary with its answer."""
    found = answer_of(result)
    return PrintedSummary(
        **dict(result.summary),
        answer=found.answer,
        further=found.further,
        scope=found.scope,
        sharpen=found.sharpen,
    )


HTML = ReportFormat("html", "one self-contained page with every chart, written into the study folder", write_page)
JSON = ReportFormat("json", "summary.json with its answer: effects, verdicts, every run's values", json_text)
