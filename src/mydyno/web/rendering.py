"""Templates of the pages; what comes from studies is escaped everywhere."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from mydyno import __version__
from mydyno.language import agreed
from mydyno.model.definition.quantities import format_duration
from mydyno.visible import visible_value
from mydyno.wording.numbers import signed_percent

FOLDER = Path(__file__).parent


def _when(unix_ns: int | None) -> str:
    return "" if unix_ns is None else datetime.fromtimestamp(unix_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _day(unix_ns: int | None) -> Markup:
    """A date, whose time a pointer over it shows."""
    if unix_ns is None:
        return Markup()
    time_ = datetime.fromtimestamp(unix_ns / 1e9, UTC)
    return Markup('<time datetime="{}" title="{}">{:%Y-%m-%d}</time>').format(
        time_.isoformat("T", "seconds"), _when(unix_ns), time_
    )


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    finalize=visible_value,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["when"] = _when
_ENVIRONMENT.filters["day"] = _day
_ENVIRONMENT.filters["percent"] = signed_percent
_ENVIRONMENT.filters["duration"] = format_duration
_ENVIRONMENT.globals.update(
    version=__version__, agreed=agreed, code=lambda text: Markup("<code>{}</code>").format(text)
)


def render(template: str, status_code: int = 200, **values: Any) -> HTMLResponse:
    """A page. The time that it took is in the header Server-Timing, which browsers show."""
    began_s = time.perf_counter()
    text = _ENVIRONMENT.get_template(template).render(**values)
    response = HTMLResponse(text, status_code)
    response.headers["server-timing"] = f"render;dur={1000 * (time.perf_counter() - began_s):.1f}"
    return response
