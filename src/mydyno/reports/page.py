"""The HTML page: sections in the order of a reader's questions, with styles and script inside; nothing is loaded."""

from __future__ import annotations

import re

from markupsafe import Markup

from mydyno.reports.page_assets import asset, script_json
from mydyno.reports.result import StudyResult
from mydyno.reports.sections import (
    adjusted,
    answer,
    builds,
    capacity,
    costs,
    effects,
    evidence,
    factors,
    gate,
    hosts,
    kernel,
    key_values,
    memory,
    network,
    noise,
    over_time,
    per_block,
    profile,
    published,
    queueing,
    repeat,
    replay,
    scalability,
    screening,
    servers,
    slices_over_time,
    sweep,
    waits,
)
from mydyno.reports.sections.section import render
from mydyno.reports.slices import read_study_slices
from mydyno.reports.telemetry import page_data, read_telemetry
from mydyno.store.study_folder import StudyFolder

TARGET_BYTES = 1_800_000
TELEMETRY_BYTES = 850_000
"""What packed telemetry may take; less where the rest of the page is large."""
LEAST_TELEMETRY_BYTES = 150_000
STILL_SHARE = 0.3
"""Still pictures take about this share of what the packed telemetry takes."""


def render_page(folder: StudyFolder) -> str:
    """The whole page as text. Raises UserError if the study folder is damaged."""
    result = StudyResult.load(folder)
    links = network.build(result)
    slices = read_study_slices(result)
    open_ = [
        answer.build(result),
        factors.build(result),
        gate.build(result),
        capacity.build(result, slices),
        screening.build(result),
        None if result.summary.screening else effects.build(result),
        hosts.build(result),
        scalability.build(result),
        costs.build(result),
        queueing.build(result, slices),
        replay.build(result, slices),
        waits.build(result),
        kernel.build(result),
        profile.build(result),
        adjusted.build(result),
        slices_over_time.build(result, slices),
        per_block.build(result),
    ]
    charts = [
        key_values.build(result),
        *links,
        sweep.build(result, elsewhere=network.metrics(result) if links else ()),
    ]
    after = [
        noise.build(result),
        memory.build(result),
        builds.build(result),
        servers.build(result),
        published.build(result),
        evidence.build(result),
        repeat.build(result),
    ]
    interleaved = result.summary.design != "blocks"
    others = [section for section in (*open_, *charts, *after) if section is not None]
    used = sum(len(section.html.encode()) for section in others) + sum(len(asset(name)) for name in _ASSET_NAMES)
    budget = max(LEAST_TELEMETRY_BYTES, min(TELEMETRY_BYTES, (TARGET_BYTES - used) / (1 + STILL_SHARE)))
    telemetry = read_telemetry(result, budget)
    over = over_time.build(result, telemetry)
    folded = [*charts, over, *after] if interleaved else after
    sections = [
        *((section, False) for section in (*open_, *(() if interleaved else (*charts, over))) if section is not None),
        *((section, True) for section in folded if section is not None),
    ]
    study = result.study
    ended = [record.ended_unix_ns for record in result.records.values()]
    first = repeat.when(study.created_unix_ns)
    page = render(
        "page.html",
        title=f"{result.summary.experiment}: {result.summary.question or study.experiment.question}",
        question=result.summary.question or study.experiment.question,
        experiment=result.summary.experiment,
        study=result.summary.study,
        when=f"{first} to {repeat.when(max(ended))}" if ended else first,
        version=result.mydyno_versions,
        chips=answer.chips(result),
        margin=repeat.margin_words(result),
        sections=sections,
        css=Markup(asset("uPlot.min.css") + "\n" + asset("report.css")),
        licence=Markup("/*\n" + asset("uPlot.LICENSE") + "\n*/"),
        library=Markup(asset("uPlot.iife.min.js")),
        script=Markup(asset("telemetry.js")),
        data=script_json(page_data(result, telemetry)) if telemetry.panels else None,
    )
    return _FORBIDDEN.sub("\ufffd", str(page))


_ASSET_NAMES = ("uPlot.min.css", "report.css", "uPlot.LICENSE", "uPlot.iife.min.js", "telemetry.js")
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Control characters that HTML forbids; server logs and status texts can contain them."""
