"""Who may see the pages: a token for the first visit, a cookie from then on, and this host's own names alone.

The server listens on 127.0.0.1 or on a Unix socket. Other users of the host can reach that port, and so can any web
page that the user's browser has open. Therefore

- the URL's fragment carries a random token. Browsers do not send fragments, and they are in no log. The page exchanges
  it by POST for a cookie that scripts cannot read and that no other site's request carries (HttpOnly, SameSite=Strict);
- a request for another Host is refused: a name of an attacker's that resolves to 127.0.0.1 (DNS rebinding);
- a POST must have been sent by a page of this server: a header that other sites cannot set, and their Origin is known;
- pages load and run nothing but files of this server (Content-Security-Policy).
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mydyno.language import agreed
from mydyno.web.rendering import render

OWN_NAMES = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)
POST_HEADER = "x-mydyno"
"""On every POST: a cross-site request cannot have a header of its own without permission, which is never given."""
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
MOST_BODY_BYTES = 1024


@dataclass(frozen=True)
class Access:
    """The secrets of one server; new ones at each start."""

    cookie: str = "mydyno_session"
    """Its name. Cookies of all ports of a host are sent to each: the name contains the port."""
    open_metrics: bool = False
    """Whether /metrics needs no cookie."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def has_session(self, headers: Headers) -> bool:
        """Whether a request carries the cookie."""
        sent = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        return secrets.compare_digest(sent.encode(), self.session.encode())

    def is_token(self, sent: str) -> bool:
        """Whether it is the token of the printed URL."""
        return secrets.compare_digest(sent.encode(), self.token.encode())

    def needs_none(self, path: str) -> bool:
        """Whether a path is open to everybody who reaches the server: it shows nothing of any study."""
        return path == "/session" or path.startswith("/assets/") or (path == "/metrics" and self.open_metrics)


class Guard:
    """ASGI middleware: refuses what `access` does not allow, and adds the security headers to every response."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("content-security-policy", POLICY)
                headers.setdefault("cache-control", "no-store")
                headers["x-content-type-options"] = "nosniff"
                headers["referrer-policy"] = "no-referrer"
                headers["cross-origin-opener-policy"] = "same-origin"
                headers["cross-origin-resource-policy"] = "same-origin"
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not OWN_NAMES.fullmatch(host):
            return PlainTextResponse("This server answers only as 127.0.0.1 or localhost.\n", 400)
        if scope["method"] == "POST" and not _from_own_page(headers, host):
            return PlainTextResponse("This request was not sent by a page of this server.\n", 403)
        if self._access.needs_none(scope["path"]) or self._access.has_session(headers):
            return None
        return render("no_access.html", status_code=401)


def _from_own_page(headers: Headers, host: str) -> bool:
    origin = headers.get("origin")
    own = origin is None or origin.partition("://")[2] == host
    return own and POST_HEADER in headers and headers.get("sec-fetch-site", "same-origin") == "same-origin"


async def read_body(request: Request, most_bytes: int) -> bytes:
    """The body of a request. Raises HTTPException 413 for a longer one, which is not read to its end."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most_bytes:
            raise HTTPException(413, agreed(f"More than {most_bytes} bytes."))
    return bytes(body)


async def begin_session(request: Request) -> Response:
    """POST /session with the token as its body: the cookie. GET: whether the request has it."""
    access: Access = request.app.state.access
    if request.method != "POST":
        return Response(status_code=204 if access.has_session(request.headers) else 401)
    try:
        body = await read_body(request, MOST_BODY_BYTES)
    except HTTPException:
        return Response(status_code=413)
    if not access.is_token(body.decode(errors="replace")):
        return Response(status_code=401)
    response = Response(status_code=204)
    response.set_cookie(access.cookie, access.session, path="/", httponly=True, samesite="strict")
    return response
