"""What a report format is: a name, what it is for, and how a study becomes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mydyno.store.study_folder import StudyFolder


@dataclass(frozen=True, slots=True)
class ReportFormat:
    """One way to print a study. `write` gives text for standard output, or the path of the file it wrote."""

    name: str
    description: str
    write: Callable[[StudyFolder], str | Path]
