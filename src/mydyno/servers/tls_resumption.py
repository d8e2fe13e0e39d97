"""Does the server resume TLS sessions? Two sessions are made on the load's own path; the second offers the first's.

The server's Ssl_session_cache_hits cannot be used: it does not count sessions resumed by a ticket, as MariaDB issues
them.
"""

from __future__ import annotations

import ssl
from typing import Any

from mydyno.servers.load_session import LoadSession, limit_context
from mydyno.servers.sql import Address


class ResumingContext(ssl.SSLContext):
    """Offers the last connection's session to the next one, and remembers whether it was taken."""

    last: ssl.SSLSocket | None = None
    offered: ssl.SSLSession | None = None

    def wrap_socket(self, sock: Any, **arguments: Any) -> ssl.SSLSocket:  # type: ignore[override]
        """As the standard library does it, with the session offered."""
        self.last = super().wrap_socket(sock, session=self.offered, **arguments)
        return self.last


async def resumes_sessions(address: Address) -> bool:
    """Whether a second session resumed the first one's. Raises ServerError if one cannot be made."""
    assert address.tls is not None
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    limit_context(context, address.tls)
    for _ in range(2):
        async with LoadSession(address, context=context) as session:
            await session.rows("SELECT 1")  # with TLS 1.3 the ticket comes after the handshake
            assert context.last is not None
            context.offered = context.last.session
            resumed = context.last.session_reused
    return bool(resumed)
