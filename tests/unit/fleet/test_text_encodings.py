"""Experiment and hosts files in other encodings: a byte order mark is ignored, the rest is refused with its line."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

import pytest

from mydyno.errors import UserError
from mydyno.experiments import load
from mydyno.fleet.groups import parse_hosts

EXPERIMENT = '# comment\nbase = "variable"\nname = "fast"\nquestion = "Größer?"\n'
HOSTS = '[[group]]\n# Straße 1, unter der Brücke\nserver = "vm1"\n'
READERS: dict[str, tuple[str, int, Callable[[str], object]]] = {
    "experiment": (EXPERIMENT, 4, load),
    "hosts": (HOSTS, 2, parse_hosts),
}
"""The text, the line of its first letter beyond ASCII, and what reads it."""


@pytest.fixture(params=list(READERS))
def reader(request: pytest.FixtureRequest) -> tuple[str, int, Callable[[str], object]]:
    return READERS[request.param]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_utf_8_with_a_byte_order_mark_is_read(
    reader: tuple[str, int, Callable[[str], object]], tmp_path: Path, newline: str
) -> None:
    text, _, read = reader
    path = tmp_path / "file.toml"
    path.write_text(text)
    plain = read(str(path))
    path.write_bytes(codecs.BOM_UTF8 + text.replace("\n", newline).encode())
    assert read(str(path)) == plain


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("utf-16", ":1: the file is in UTF-16"),
        ("utf-16-le", ":1: the file is in UTF-16"),
        ("utf-32", ":1: the file is in UTF-32"),
        ("latin-1", ":{line}: byte 0x"),
        ("cp1252", "the file seems to be in Latin-1 or Windows-1252"),
    ],
)
def test_another_encoding_is_refused_with_its_name_and_line(
    reader: tuple[str, int, Callable[[str], object]], tmp_path: Path, encoding: str, words: str
) -> None:
    text, line, read = reader
    path = tmp_path / "file.toml"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(UserError) as caught:
        read(str(path))
    assert caught.value.message.startswith(str(path))
    assert words.format(line=line) in caught.value.message
    assert "UTF-8" in caught.value.hint
