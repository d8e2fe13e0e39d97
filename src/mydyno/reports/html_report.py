"""report.html: one self-contained page in the study folder; no network, light and dark, phone and print."""

from __future__ import annotations

from pathlib import Path

from mydyno.files.atomic import write_text
from mydyno.reports.format import ReportFormat
from mydyno.store.study_folder import StudyFolder


def write(folder: StudyFolder) -> Path:
    """Write report.html (under a temporary name, then renamed) and return its path."""
    from mydyno.reports.page import render_page  # templates and telemetry are heavy: only when a page is made

    path = folder.path / "report.html"
    write_text(path, render_page(folder))
    return path


FORMAT = ReportFormat("html", "one self-contained page with every chart, written into the study folder", write)
