"""A document over several studies, and its frame as a page of its own: styles and script inside, nothing is loaded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from mydyno.document.page_assets import asset, script_json
from mydyno.document.section import Section, Table, render

_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Control characters that HTML forbids."""


@dataclass(frozen=True)
class Document:
    """What a page over several studies shows, whatever frame it is in."""

    title: str
    over: str
    below: str
    sections: Sequence[tuple[Section, bool]]
    """Each with whether it is folded."""
    data: dict[str, Any] | None = None
    """What the chart over time reads."""

    @property
    def script_data(self) -> Markup | None:
        """The data as the page has them."""
        return None if self.data is None else script_json(self.data)

    @property
    def body(self) -> Markup:
        """Its sections with their navigation."""
        return Markup(_FORBIDDEN.sub("\ufffd", render("sections.html", sections=self.sections)))


def page(document: Document) -> str:
    """The document as one self-contained page."""
    text = render(
        "across.html",
        title=document.title,
        over=document.over,
        below=document.below,
        sections=document.sections,
        css=Markup(asset("uPlot.min.css") + "\n" + asset("report.css")),
        behaviour=Markup(asset("report.js")),
        licence=Markup("/*\n" + asset("uPlot.LICENSE") + "\n*/"),
        library=Markup(asset("uPlot.iife.min.js")),
        script=Markup(asset("charts.js") + "\n" + asset("telemetry.js")),
        data=document.script_data,
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
