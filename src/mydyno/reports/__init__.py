"""Reports: each is written from a saved study folder alone, and can be written again at any time.

A format has one line here. Heavy modules (templates, telemetry) are loaded when a report
is written.
"""

from __future__ import annotations

from pathlib import Path

from mydyno.errors import UserError
from mydyno.reports import csv_report, formats, markdown_report
from mydyno.reports.anonymised import AnonymisedFolder
from mydyno.reports.formats import ReportFormat
from mydyno.store.study_folder import StudyFolder

FORMATS: dict[str, ReportFormat] = {
    report.name: report
    for report in (
        formats.HTML,
        markdown_report.FORMAT,
        csv_report.FORMAT,
        formats.JSON,
    )
}


def write(folder: StudyFolder, format: str, anonymise: bool = False) -> str | Path:  # noqa: A002 - the command's word
    """The study in that format: text for standard output, or the path of the file written.

    `anonymise`: without the values of statements that were compared. Raises UserError.
    """
    if format not in FORMATS:
        raise UserError(f"there is no report format {format!r}", f"one of: {', '.join(FORMATS)}")
    if anonymise:
        folder = AnonymisedFolder(folder.path)
    return FORMATS[format].write(folder)


__all__ = ["FORMATS", "ReportFormat", "write"]
