"""The HTML page: six chapters in the order of a reader's questions, with styles and script inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mydyno.analysis.catalogue import parts_of
from mydyno.document.parts import Part, asset, framed, render, script_json
from mydyno.document.result import StudyResult
from mydyno.evaluation.answer import answer_of
from mydyno.reports.sections import answer, metrics, network, over_time, repeat, trust
from mydyno.reports.telemetry import page_data, read_telemetry
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.numbers import when

TARGET_BYTES = 380_000
LEAST_TELEMETRY_BYTES = 60_000
"""What packed telemetry may take where the rest of the page is large."""


def render_page(folder: StudyFolder) -> str:
    """The whole page as text. Raises UserError if the study folder is damaged."""
    result = StudyResult.load(folder)
    before, clock, after = _before(result), over_time.build_slices(result), _after(result)
    used = sum(len(part.html.encode()) for part in (*before, clock, *after) if part)
    used += sum(len(asset(name)) for name in _ASSET_NAMES)
    room, in_runs = max(LEAST_TELEMETRY_BYTES, TARGET_BYTES - used), result.summary.design == "blocks"
    telemetry = read_telemetry(result, room) if in_runs else None
    explorer = over_time.build_explorer(telemetry) if telemetry else None
    study = result.study
    ended = [record.ended_unix_ns for record in result.records.values()]
    first = when(study.created_unix_ns)
    return framed(
        "page.html",
        script_json(page_data(result, telemetry)) if telemetry and telemetry.panels else None,
        title=f"{result.summary.experiment}: {result.summary.question or study.experiment.question}",
        question=result.summary.question or study.experiment.question,
        experiment=result.summary.experiment,
        study=result.summary.study,
        when=f"{first} to {when(max(ended))} UTC" if ended else f"{first} UTC",
        version=result.mydyno_versions,
        chips=answer.chips(result),
        margin=repeat.margin_words(result),
        sections=[*before, *_chapters(("over-time", "Over time", "", [clock, explorer])), *after],
    )


def _before(result: StudyResult) -> list[Part]:
    """Answer and why."""
    asked = [answer.build(result, answer_of(result)), *parts_of(result, "decision"), *parts_of(result, "answer")]
    why = [metrics.build(result), *parts_of(result, "why"), network.build(result)]
    return _chapters(("answer", "Answer", "", asked), ("why", "Why", "", why))


def _after(result: StudyResult) -> list[Part]:
    """Load levels, trust and repeat."""
    noisy, checked = trust.build_noise(result), trust.build_evidence(result)
    found = "; ".join(filter(None, (checked.says, noisy.says)))
    parts = [*(replace(one, says="") for one in (noisy, checked)), *parts_of(result, "trust")]
    return _chapters(
        ("load", "Load levels", "", [metrics.build_sweep(result), *parts_of(result, "load")]),
        ("trust", "Trust", found, parts),
        ("repeat", "Repeat", "", [repeat.build(result)]),
    )


def _chapters(*chapters: tuple[str, str, str, Sequence[Part | None]]) -> list[Part]:
    """(id, heading, finding, parts) of each as one part of the page, those that are folded last; without parts there is
    no chapter. A part of a chapter's id stands directly below its heading.
    """
    found = []
    for id_, heading, says, parts in chapters:
        present = sorted((part for part in parts if part is not None), key=lambda part: part.folded)
        if present:
            html = render("chapter.html", chapter=id_, parts=present)
            found.append(Part(id=id_, heading=heading, says=says, body=[html]))
    return found


_ASSET_NAMES = (
    "uPlot.min.css", "report.css", "report.js", "uPlot.LICENSE", "uPlot.iife.min.js", "charts.js", "telemetry.js",
)  # fmt: skip
