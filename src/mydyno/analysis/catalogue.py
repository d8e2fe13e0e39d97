"""The list of analyses: the report has their sections in this order."""

from __future__ import annotations

from collections.abc import Iterator

from mydyno.analysis import queueing
from mydyno.analysis.base import Analysis, Chapter
from mydyno.document.result import StudyResult
from mydyno.document.section import Section

ANALYSES: tuple[Analysis, ...] = (queueing.ANALYSIS,)


def sections_of(result: StudyResult, chapter: Chapter, folded: bool = False) -> Iterator[Section]:
    """The sections of a chapter: those that open on demand, or the others."""
    for one in ANALYSES:
        if (one.chapter, one.folded) == (chapter, folded) and (section := one.part(result)) is not None:
            yield section
