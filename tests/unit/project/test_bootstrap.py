"""The engine that bootstrap.sh makes, with Cargo and a program of one line in the engine's place."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT

MANIFEST = """
[package]
name = "mydyno-engine"
version = "0.1.0"
edition = "2021"
[[bin]]
name = "dyno-says"
path = "main.rs"
"""
LOCK = 'version = 4\n[[package]]\nname = "mydyno-engine"\nversion = "0.1.0"\n'


def says(checkout: Path, cache: Path) -> str:
    """What the program says that is made from this checkout."""
    engine = cache / checkout.name
    script = 'source "$0/bootstrap.sh"; here=$1 cache=$2; make_engine "$3"'
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script, ROOT, checkout, cache, engine], check=True, capture_output=True
    )
    return subprocess.check_output([engine / "bin" / "dyno-says"], text=True)


@pytest.mark.skipif(shutil.which("cargo") is None, reason="there is no cargo")
def test_checkouts_with_one_cache_get_each_its_own_engine(tmp_path: Path) -> None:
    for name in ("first", "second"):
        folder = tmp_path / name / "engine"
        folder.mkdir(parents=True)
        (folder / "Cargo.toml").write_text(MANIFEST)
        (folder / "Cargo.lock").write_text(LOCK)
        (folder / "main.rs").write_text(f'fn main() {{ print!("{name}") }}')
    # The second one's files are older than what is built of the first.
    assert says(tmp_path / "first", tmp_path / "cache") == "first"
    assert says(tmp_path / "second", tmp_path / "cache") == "second"


@pytest.mark.parametrize(
    ("variables", "code", "words"),
    [
        ({"MYDYNO_CACHE": "{}/own"}, 0, "{}/own\n"),
        ({"XDG_CACHE_HOME": "{}/user"}, 0, "{}/user/mydyno\n"),
        ({"HOME": "{}"}, 0, "{}/.cache/mydyno\n"),
        ({"HOME": ""}, 3, "mydyno: error: there is no cache folder: neither HOME nor MYDYNO_CACHE is set\n"),
        ({"MYDYNO_CACHE": "{}/a:b"}, 3, "mydyno: error: the cache folder {}/a:b has a colon, at which PATH"),
    ],
)
def test_the_cache_is_found_as_the_program_finds_it(
    tmp_path: Path, variables: dict[str, str], code: int, words: str
) -> None:
    given = {"PATH": os.environ["PATH"], **{name: value.format(tmp_path) for name, value in variables.items()}}
    script = 'source "$0/bootstrap.sh"; find_cache; echo "$cache"'
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script, ROOT], env=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert (done.stdout + done.stderr).startswith(words.format(tmp_path))
