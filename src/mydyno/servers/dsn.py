"""The data source name of an external server.

The password comes from the environment variable MYDYNO_DSN_PASSWORD, so that it is in no file and on no command line.
"""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from mydyno.errors import UserError
from mydyno.servers.sql import Address

PASSWORD_VARIABLE = "MYDYNO_DSN_PASSWORD"


def parse_dsn(dsn: str) -> Address:
    """From mysql://user@host:3306/schema, or mysql://user@/schema?socket=/path. Raises UserError."""
    parts = urlsplit(dsn)
    form = "mysql://user@host:3306/schema or mysql://user@localhost/schema?socket=/path/mysqld.sock"
    if parts.scheme not in ("mysql", "mariadb"):
        raise UserError(f"server.dsn: the scheme is {parts.scheme or 'missing'!r}", f"use {form}")
    if parts.password is not None:
        raise UserError(
            "server.dsn contains a password, which would be stored in every study",
            f"remove it and set the environment variable {PASSWORD_VARIABLE}",
        )
    schema = parts.path.strip("/")
    if not parts.username or not schema:
        raise UserError(f"server.dsn: {'user' if not parts.username else 'schema'} is missing", f"use {form}")
    query = dict(pair.partition("=")[::2] for pair in parts.query.split("&") if pair)
    if set(query) - {"socket"}:
        raise UserError(f"server.dsn: unknown option {', '.join(set(query) - {'socket'})}", "known: socket")
    try:
        port = parts.port or 3306
    except ValueError:
        raise UserError(f"server.dsn: no such port in {parts.netloc.rpartition('@')[2]}", f"use {form}") from None
    return Address(
        user=unquote(parts.username),
        password=os.environ.get(PASSWORD_VARIABLE, ""),
        socket=unquote(query["socket"]) if "socket" in query else None,
        host=parts.hostname or "127.0.0.1",
        port=port,
        database=schema,
    )
