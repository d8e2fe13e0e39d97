"""Sessions on the load's path: how dynoload is started, and what is read of its answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mydyno.errors import ServerError
from mydyno.hosts.local import LocalHost
from mydyno.servers.sql import Address, ClientTls
from mydyno.treatments.client_path import open_sessions, session_status

ADDRESS = Address("dyno", b"kept-apart", host="10.0.0.1", port=3307, tls=ClientTls("required", versions=("1.2",)))
TLS = {"version": "TLSv1.2", "cipher_suite": "ECDHE-RSA-AES128-GCM-SHA256"}


def report(**changes: Any) -> str:
    rows = {"columns": ["Variable_name", "Value"], "rows": [["Ssl_version", "TLSv1.2"]]}
    one = {"connection_id": 7, "server_version": "10.11.6-MariaDB", "results": [rows]}
    sessions = [one, {**one, "tls": {**TLS, "resumed": True}}]
    return json.dumps({"format_version": 1, "sessions": sessions, **changes})


def program(folder: Path, script: str) -> Path:
    """A stand-in for dynoload."""
    path = folder / "dynoload"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


async def test_the_answer_is_read_after_warnings_and_the_password_comes_by_the_pipe(tmp_path: Path) -> None:
    script = f"""printf '%s\\n' "$@" >{tmp_path}/arguments; head -1 >{tmp_path}/password
echo 'dynoload: warning: mind this' >&2; echo '{report()}'"""
    statement = session_status("Ssl_version", "Ssl_cipher")
    host = LocalHost("tests", None)
    plain, resumed = await open_sessions(program(tmp_path, script), host, ADDRESS, [statement], sessions=2)
    assert (plain.tls, plain.status) == (None, {"Ssl_version": "TLSv1.2"})
    assert resumed.tls is not None
    assert resumed.tls.resumed
    assert (tmp_path / "password").read_text() == "kept-apart\n"
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments[0] == "session"
    for argument in ("--host=10.0.0.1", "--port=3307", "--database=", "--ssl-mode=required", "--tls-versions=1.2",
                     "--sessions=2", f"--sql={statement}"):  # fmt: skip
        assert argument in arguments
    assert "kept-apart" not in "".join(arguments)


async def test_dynoloads_own_words_are_the_error(tmp_path: Path) -> None:
    script = "echo 'dynoload: the server refused user dyno' >&2; exit 2"
    with pytest.raises(ServerError, match="on the load's path: the server refused user dyno"):
        await open_sessions(program(tmp_path, script), LocalHost("tests", None), ADDRESS, [])


@pytest.mark.parametrize(
    ("text", "words"), [("no object", "dynoload printed"), (report(format_version=9), "version 9")]
)
async def test_an_answer_that_is_not_known_is_an_error(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ServerError, match=words):
        await open_sessions(program(tmp_path, f"echo '{text}'"), LocalHost("tests", None), ADDRESS, [])
