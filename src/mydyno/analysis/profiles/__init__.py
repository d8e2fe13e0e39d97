"""Where the CPU goes: the functions that differ between an arm and its control, and the flame graph of both."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from mydyno.analysis.base import Analysis
from mydyno.analysis.profiles import words
from mydyno.analysis.profiles.contrasts import analyse
from mydyno.analysis.profiles.drawn import graphs_of, page_graphs
from mydyno.document import counted
from mydyno.document.page_assets import asset, script_json
from mydyno.document.parts import Part
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Table, render
from mydyno.model.stored.profiles import ProfileContrast
from mydyno.wording.numbers import percent, signed_time, time_interval, time_text


def part(result: StudyResult) -> Part | None:
    """The section; None where nothing was profiled."""
    record = result.summary.profiles
    if record is None:
        return None
    contrasts = record.contrasts
    graphs, share = graphs_of(result)
    by_key = {(one.step, one.arm, one.control): one for one in contrasts}
    drawn = [one for one in graphs if (one.step, one.arm, one.control) in by_key]
    labels = [counted.heading(result, by_key[one.step, one.arm, one.control]) for one in drawn]
    flame = None
    if drawn:
        data, script = script_json(page_graphs(result, drawn, labels)), Markup(asset("flame.js"))
        flame = render("flame.html", least=percent(share), data=data, script=script)
    found = [(one, words.sentence(one, record), [_table(one)]) for one in contrasts]
    body = counted.body(result, found, "functions", flame, words.quality(record))
    return Part(id="cpu", heading="Where the CPU goes", body=body)


def _table(contrast: ProfileContrast) -> Table:
    shown = contrast.leading
    chosen = words.rows(contrast)
    rows: list[Sequence[str | Cell]] = [
        [
            one.label,
            Cell(time_text(one.control_us), "num"),
            Cell(time_text(one.arm_us), "num"),
            Cell(signed_time(one.change_us), "num strong" if one.beyond_noise else "num"),
            Cell(time_interval(one.low_us, one.high_us), "num"),
            Cell(time_text(one.control_self_us), "num"),
            Cell(time_text(one.arm_self_us), "num"),
        ]
        for one in chosen
    ]
    control, arm = contrast.control, contrast.arm
    return Table(
        "CPU time per transaction of a function with all that it calls: "
        + ("those that differ beyond noise" if shown else "those with most time of their own"),
        ("function", control, arm, "difference", "interval", f"{control}, own", f"{arm}, own"),
        rows,
        f"In all: {time_text(contrast.control_us)} and {time_text(contrast.arm_us)} per transaction.",
    )


ANALYSIS = Analysis(chapter="why", part=part, stored="profiles", analyse=analyse)
