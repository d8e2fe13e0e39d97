"""Templates of the pages; what comes from studies is escaped everywhere."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from mydyno import __version__
from mydyno.language import html_language, marked, tr, tr_html, tr_plural
from mydyno.model.definition.quantities import format_duration
from mydyno.reports.page_assets import script_json, script_words, stored_text
from mydyno.visible import visible_value
from mydyno.web.languages import other_languages

FOLDER = Path(__file__).parent


def _when(unix_ns: int | None) -> str:
    return "" if unix_ns is None else datetime.fromtimestamp(unix_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M UTC")


STATE_WORDS = {
    "running": marked("running"),
    "complete": marked("complete"),
    "partial": marked("partial"),
    "unfinished": marked("unfinished"),
    "killed": marked("killed"),
    "failed": marked("failed"),
    "damaged": marked("damaged"),
}


@cache
def _scripts() -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8") for path in sorted((FOLDER / "assets").glob("*.js")))


def _words() -> Markup | str:
    """What the scripts say, in the language of the page; empty in English."""
    found = script_words(*_scripts())
    return script_json(found) if found else ""


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    finalize=visible_value,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["when"] = _when
_ENVIRONMENT.filters["duration"] = format_duration
_ENVIRONMENT.globals.update(
    version=__version__,
    tr=tr,
    tr_html=tr_html,
    tr_plural=tr_plural,
    language=html_language,
    other_languages=other_languages,
    code=lambda text: Markup("<code>{}</code>").format(text),
    state_word=lambda state: tr(STATE_WORDS[state]) if state in STATE_WORDS else state,
    stored=stored_text,
    page_words=_words,
)


def render(template: str, status_code: int = 200, **values: Any) -> HTMLResponse:
    """A page. The time that it took is in the header Server-Timing, which browsers show."""
    began_s = time.perf_counter()
    text = _ENVIRONMENT.get_template(template).render(**values)
    response = HTMLResponse(text, status_code)
    response.headers["server-timing"] = f"render;dur={1000 * (time.perf_counter() - began_s):.1f}"
    return response
