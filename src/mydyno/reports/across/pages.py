"""The frame of a page over several studies: styles and script inside, nothing is loaded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from mydyno.document.page_assets import asset, script_json
from mydyno.document.section import Section, Table, render

_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Control characters that HTML forbids."""


def page(
    title: str,
    over: str,
    below: str,
    sections: Sequence[tuple[Section, bool]],
    data: dict[str, Any] | None = None,
) -> str:
    """The page as text; `sections` with whether each is folded, `data` what the chart over time reads."""
    text = render(
        "across.html",
        title=title,
        over=over,
        below=below,
        sections=sections,
        css=Markup(asset("uPlot.min.css") + "\n" + asset("report.css")),
        behaviour=Markup(asset("report.js")),
        licence=Markup("/*\n" + asset("uPlot.LICENSE") + "\n*/"),
        library=Markup(asset("uPlot.iife.min.js")),
        script=Markup(asset("charts.js") + "\n" + asset("telemetry.js")),
        data=None if data is None else script_json(data),
    )
    return _FORBIDDEN.sub("\ufffd", str(text))


def section(
    id_: str,
    title: str,
    short: str,
    *,
    says: str = "",
    lead: Sequence[str] = (),
    text: Sequence[str] = (),
    verdicts: Sequence[Table] = (),
    figures: Markup | str = "",
    tables: Sequence[Table] = (),
    lists: Sequence[tuple[str, Sequence[str]]] = (),
    details: Sequence[tuple[str, Sequence[Table]]] = (),
    explorer: bool = False,
) -> Section:
    """A section of sentences, tables of verdicts, charts, tables, lists and folded tables, in this order."""
    html = render(
        "across_section.html",
        lead=lead,
        text=text,
        verdicts=verdicts,
        figures=figures,
        tables=tables,
        lists=lists,
        details=details,
        explorer=explorer,
    )
    return Section(id_, title, short, html, says)
