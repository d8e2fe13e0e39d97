"""The data source name of an external server: where it listens, the account, and TLS.

TLS has the parameters of MySQL's clients, and so is "preferred" where ssl-mode is missing. A load is never left
to choose: without a treatment it has TLS only where ssl-mode is required, verify-ca or verify-identity.

The password comes from the environment variable MYDYNO_DSN_PASSWORD, so that it is in no file and on no command line;
that of an arm's own DSN from MYDYNO_DSN_PASSWORD_ARM, with the arm's name, where it is set. It is bytes, in whichever
encoding.
"""

from __future__ import annotations

import os
import re
import ssl
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mydyno.errors import UserError
from mydyno.servers.sql import Address, ClientTls, TlsMode

PASSWORD_VARIABLE = "MYDYNO_DSN_PASSWORD"
FORM = "mysql://user@host:3306/schema or mysql://user@localhost/schema?socket=/path/mysqld.sock"
SSL_MODES: dict[str, TlsMode] = {
    "disabled": "disabled",
    "preferred": "preferred",
    "required": "required",
    "verify-ca": "verify_ca",
    "verify-identity": "verify_identity",
}
PARAMETERS = ("socket", "ssl-mode", "ssl-ca", "ssl-cert", "ssl-key")


def password_variables(arm: str) -> list[str]:
    """The environment variables that may hold a password, of which the first that is set counts.

    `arm`: whose own DSN it is; empty: the experiment's.
    """
    own = re.sub(r"[^A-Z0-9]", "_", arm.upper())
    return [*([f"{PASSWORD_VARIABLE}_{own}"] if arm else []), PASSWORD_VARIABLE]


def parse_dsn(dsn: str, arm: str = "") -> Address:
    """From mysql://user@host:3306/schema, or mysql://user@/schema?socket=/path. Raises UserError.

    `arm`: whose own it is; empty: the experiment's.
    """
    parts = urlsplit(dsn, allow_fragments=False)
    if parts.scheme not in ("mysql", "mariadb"):
        raise UserError(f"server.dsn: the scheme is {parts.scheme or 'missing'!r}", f"use {FORM}")
    if parts.password is not None:
        raise UserError(
            "server.dsn contains a password, which would be stored in every study",
            f"remove it and set the environment variable {PASSWORD_VARIABLE}",
        )
    schema = unquote(parts.path.strip("/"))
    if not parts.username or not schema:
        raise UserError(f"server.dsn: {'user' if not parts.username else 'schema'} is missing", f"use {FORM}")
    query = _parameters(parts.query)
    try:
        port = parts.port or 3306
    except ValueError:
        raise UserError(f"server.dsn: no such port in {parts.netloc.rpartition('@')[2]}", f"use {FORM}") from None
    return Address(
        user=unquote(parts.username),
        password=next(filter(None, (os.environb.get(name.encode()) for name in password_variables(arm))), b""),
        socket=query.get("socket"),
        host=(parts.hostname or "127.0.0.1").replace("%25", "%"),  # before the zone of a link-local address (RFC 6874)
        port=port,
        database=schema,
        tls=_tls(query),
    )


def place_of(dsn: str) -> str:
    """Where an external server listens: host:port, or its socket. Raises UserError."""
    address = parse_dsn(dsn)
    return address.socket or f"{address.host}:{address.port}"


def _parameters(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        if name not in PARAMETERS:
            raise UserError(f"server.dsn: unknown parameter {name}", f"known: {', '.join(PARAMETERS)}")
        if name in found or not value:
            raise UserError(
                f"server.dsn: {name} {'is there twice' if name in found else 'has no value'}", f"use {FORM}"
            )
        found[name] = unquote(value)
    return found


def _tls(query: dict[str, str]) -> ClientTls:
    name = query.get("ssl-mode", "preferred")
    # Written in capitals and with _ in an option file.
    mode = SSL_MODES.get(name.lower().replace("_", "-"))
    if mode is None:
        raise UserError(f"server.dsn: ssl-mode is {name}", f"allowed: {', '.join(SSL_MODES)}")
    files = {key: Path(value) for key, value in query.items() if key in ("ssl-ca", "ssl-cert", "ssl-key")}
    if files and mode == "disabled":
        raise UserError(f"server.dsn: {next(iter(files))} has no effect with ssl-mode=disabled", "remove one of them")
    if "ssl-ca" in files and not mode.startswith("verify"):
        raise UserError(
            f"server.dsn: ssl-ca has no effect with ssl-mode={name}",
            "use ssl-mode=verify-ca or verify-identity, or remove ssl-ca",
        )
    if mode.startswith("verify") and "ssl-ca" not in files:
        raise UserError(
            f"server.dsn: ssl-mode={name} needs ssl-ca",
            "ssl-ca=FILE: the PEM file of the authority that signed the server's certificate",
        )
    if ("ssl-cert" in files) != ("ssl-key" in files):
        raise UserError(
            "server.dsn: ssl-cert and ssl-key belong together",
            "a client's certificate is two PEM files, the certificate and its key",
        )
    return ClientTls(mode, files.get("ssl-ca"), certificate=files.get("ssl-cert"), key=files.get("ssl-key"))


def unreadable_file(address: Address) -> str | None:
    """Which file of the DSN cannot be read or holds no certificate, and why."""
    tls = address.tls or ClientTls()
    for name, path in (("ssl-ca", tls.authority), ("ssl-cert", tls.certificate), ("ssl-key", tls.key)):
        try:
            if path is not None:
                path.read_bytes()
        except OSError as error:
            return f"server.dsn: {name}={path} cannot be read: {error.strerror}"
    try:
        if tls.authority is not None:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(tls.authority)
    except ssl.SSLError:
        return f"server.dsn: ssl-ca={tls.authority} holds no certificate in PEM format"
    return None
