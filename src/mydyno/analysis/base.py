"""What an analysis is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mydyno.document.result import StudyResult
from mydyno.document.section import Section

Chapter = Literal["answer", "why", "load"]
"""Chapters of the report that have analyses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """One idea, as the last lines of its file declare it."""

    chapter: Chapter
    part: Callable[[StudyResult], Section | None]
    """Its section of the report; None: the study has none."""
    folded: bool = False
    """Whether the section opens on demand."""
