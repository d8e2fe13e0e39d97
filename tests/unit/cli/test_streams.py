"""Commands whose output nobody reads, or whose encoding lacks what they print."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT, first_in_gate

COMMANDS = {"plan allocators": 0, "no-such-command": 2, "list": 0, "schema": 0, "--help": 0}
CLOSED = 'exec "$0" "$@" >&- 2>&-'


def program(tmp_path: Path, **variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MYDYNO_CACHE": str(tmp_path), **variables}


def arguments(command: list[str]) -> list[str]:
    return [sys.executable, "-m", "mydyno.cli", *command]


@pytest.mark.parametrize(("words", "code"), first_in_gate(COMMANDS.items(), 2), ids=COMMANDS)
def test_the_exit_code_does_not_depend_on_who_reads(tmp_path: Path, words: str, code: int) -> None:
    command, environment = words.split(), program(tmp_path)
    read = subprocess.run(arguments(command), cwd=tmp_path, env=environment, capture_output=True, check=False)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        unread = subprocess.run(
            arguments(command), cwd=tmp_path, env=environment, stdout=writer, stderr=writer, check=False
        )
    finally:
        os.close(writer)
    closed = subprocess.run(["bash", "-c", CLOSED, *arguments(command)], cwd=tmp_path, env=environment, check=False)
    assert (read.returncode, unread.returncode, closed.returncode) == (code, code, code), read.stderr


def test_a_character_that_the_encoding_lacks_is_escaped(tmp_path: Path) -> None:
    ascii_only = program(tmp_path, PYTHONIOENCODING="ascii")
    done = subprocess.run(
        arguments(["plan", "allocators"]), cwd=tmp_path, env=ascii_only, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u2032" in done.stdout, "the prime of the control's copy"
