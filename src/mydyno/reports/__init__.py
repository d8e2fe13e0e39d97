"""stand-in until merge."""

from pathlib import Path

from mydyno.store.study_folder import StudyFolder

FORMATS = {"html": None}


def write(folder: StudyFolder, format_: str) -> "str | Path":
    return folder.path / "report.html"
