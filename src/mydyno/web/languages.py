"""The language of the pages: what the reader chose on a page, else what the browser prefers.

A choice is a link with `?language=zh`; a cookie without any secret remembers it for the pages that follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mydyno.language import HTML_NAMES, LANGUAGES, current_language, speaking

COOKIE = "mydyno_language"
PARAMETER = "language"
A_YEAR_S = 365 * 86400
_QUERY: ContextVar[str] = ContextVar("mydyno_query", default="")


class Speaking:
    """ASGI middleware: everything within is in the language of the request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and remember a choice."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        query = scope.get("query_string", b"").decode("latin-1")
        chosen = dict(parse_qsl(query)).get(PARAMETER, "")
        language = wanted_language(chosen, Headers(scope=scope))

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.add_vary_header("Accept-Language, Cookie")
                if chosen in LANGUAGES:
                    cookie = f"{COOKIE}={chosen}; Path=/; Max-Age={A_YEAR_S}; SameSite=Strict; HttpOnly"
                    headers.append("set-cookie", cookie)
            await send(message)

        with speaking(language), _query(query):
            await self._app(scope, receive, send_with_cookie)


@contextmanager
def _query(text: str) -> Iterator[None]:
    token = _QUERY.set(text)
    try:
        yield
    finally:
        _QUERY.reset(token)


def wanted_language(chosen: str, headers: Headers) -> str:
    """`chosen` if it is a language, else that of the cookie, else the first of Accept-Language that there is."""
    remembered = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
    for one in (chosen, remembered):
        if one in LANGUAGES:
            return one
    return preferred(headers.get("accept-language", ""))


def preferred(accepted: str) -> str:
    """The best of an Accept-Language header, by its weights (RFC 9110, 12.5.4); English where none fits."""
    found: list[tuple[float, int, str]] = []
    for place, part in enumerate(accepted.split(",")[:20]):
        name, _, weight = part.strip().partition(";q=")
        language = name.strip().lower().partition("-")[0]
        try:
            quality = float(weight or 1)
        except ValueError:
            continue
        if language in LANGUAGES and quality > 0:
            found.append((-quality, place, language))
    return min(found)[2] if found else "en"


def other_languages() -> list[tuple[str, str, str]]:
    """(query of this page in it, attribute lang, its own name) of every language but the present one."""
    kept = [(name, value) for name, value in parse_qsl(_QUERY.get()) if name not in (PARAMETER, "part")]
    return [
        (urlencode([*kept, (PARAMETER, code)]), HTML_NAMES[code], name)
        for code, name in LANGUAGES.items()
        if code != current_language()
    ]
