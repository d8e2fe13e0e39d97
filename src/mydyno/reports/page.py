"""The HTML page: six chapters in the order of a reader's questions, with styles and script inside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from mydyno.analysis.base import Chapter
from mydyno.analysis.catalogue import sections_of
from mydyno.document.page_assets import asset, script_json
from mydyno.document.parts import framed
from mydyno.document.result import StudyResult
from mydyno.document.section import Section, render
from mydyno.evaluation.answer import answer_of
from mydyno.reports.gate import gate_section
from mydyno.reports.sections import (
    answer,
    evidence,
    metrics,
    network,
    noise,
    over_time,
    repeat,
    slices_over_time,
    sweep,
)
from mydyno.reports.telemetry import Telemetry, page_data, read_telemetry
from mydyno.store.study_folder import StudyFolder

TARGET_BYTES = 380_000
"""Without the charts of memory over time."""
LEAST_TELEMETRY_BYTES = 60_000
"""What packed telemetry may take where the rest of the page is large."""


@dataclass(frozen=True, slots=True)
class Part:
    """A section within a chapter. A `bare` one has the chapter's heading alone."""

    section: Section | None
    """None: the study has none, and the part is left out."""
    folded: bool = False
    bare: bool = False

    @property
    def html(self) -> Markup:
        """The section, its headings one level lower unless the chapter's own stands directly above."""
        assert self.section is not None
        if self.bare:
            return self.section.html
        return Markup(_HEADING.sub(r"\g<1>4", str(self.section.html)))


def render_page(folder: StudyFolder) -> str:
    """The whole page as text. Raises UserError if the study folder is damaged."""
    result = StudyResult.load(folder)
    before, after = _before(result), _after(result)
    used = sum(len(chapter.html.encode()) for chapter in (*before, *after))
    used += sum(len(asset(name)) for name in _ASSET_NAMES)
    telemetry = None
    if result.summary.design == "blocks":
        telemetry = read_telemetry(result, max(LEAST_TELEMETRY_BYTES, TARGET_BYTES - used))
    study = result.study
    ended = [record.ended_unix_ns for record in result.records.values()]
    first = repeat.when(study.created_unix_ns)
    return framed(
        "page.html",
        script_json(page_data(result, telemetry)) if telemetry and telemetry.panels else None,
        title=f"{result.summary.experiment}: {result.summary.question or study.experiment.question}",
        question=result.summary.question or study.experiment.question,
        experiment=result.summary.experiment,
        study=result.summary.study,
        when=f"{first} to {repeat.when(max(ended))}" if ended else first,
        version=result.mydyno_versions,
        chips=answer.chips(result),
        margin=repeat.margin_words(result),
        sections=[(chapter, False) for chapter in (*before, *_over_time(result, telemetry), *after)],
    )


def _before(result: StudyResult) -> list[Section]:
    """Answer and why."""
    return _chapters(
        ("answer", "Answer", "", [
            Part(answer.build(result, answer_of(result)), bare=True),
            Part(gate_section(result)),
            *_analyses(result, "answer"),
        ]),
        ("why", "Why", "", [
            *_analyses(result, "why"),
            Part(metrics.build(result), folded=True),
            *_analyses(result, "why", folded=True),
            Part(network.build(result), folded=True),
        ]),
    )  # fmt: skip


def _analyses(result: StudyResult, chapter: Chapter, folded: bool = False) -> list[Part]:
    return [Part(section, folded=folded) for section in sections_of(result, chapter, folded)]


def _over_time(result: StudyResult, telemetry: Telemetry | None) -> list[Section]:
    """The time of the blocks of an interleaved study, or the telemetry of steps; and memory over whole runs."""
    parts = [
        Part(slices_over_time.build(result)),
        Part(over_time.build(telemetry) if telemetry else None),
        Part(over_time.memory(result), folded=True),
    ]
    return _chapters(("over-time", "Over time", "", parts))


def _after(result: StudyResult) -> list[Section]:
    """Load levels, trust and repeat."""
    checked, noisy = evidence.build(result), noise.build(result)
    found = "; ".join(filter(None, (checked.says, noisy.says)))
    return _chapters(
        ("load", "Load levels", "", [Part(sweep.build(result)), *_analyses(result, "load")]),
        ("trust", "Trust", found, [
            Part(replace(noisy, says=""), folded=True),
            Part(replace(checked, says=""), folded=True),
            *_analyses(result, "trust", folded=True),
        ]),
        ("repeat", "Repeat", "", [Part(repeat.build(result), bare=True)]),
    )  # fmt: skip


def _chapters(*chapters: tuple[str, str, str, Sequence[Part]]) -> list[Section]:
    """(id, title, finding, parts) of each as a section; without a part there is no chapter."""
    found = []
    for id_, title, says, parts in chapters:
        present = [part for part in parts if part.section is not None]
        if present:
            found.append(Section(id_, title, title, render("chapter.html", parts=present), says))
    return found


_ASSET_NAMES = (
    "uPlot.min.css", "report.css", "report.js", "uPlot.LICENSE", "uPlot.iife.min.js", "charts.js", "telemetry.js",
)  # fmt: skip
_HEADING = re.compile(r"(</?h)3\b")
