"""What bootstrap.sh makes: the engine, with Cargo and a program of one line in its place, and the parts of it all."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.patience import HANG_S, wait_until

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


MAKE_TOGETHER = """
source "$0/bootstrap.sh"
fails() { until [ -e "$PWD/held" ]; do sleep 0.01; done; echo it broke; return 1; }
hangs() { exec 5>"$PWD/held"; flock 5; sleep 99; }
# So that a signal comes after the start of a process and before its number is kept.
set -T
trap 'case $BASH_COMMAND in making+=*) sleep 0.3 ;; esac' DEBUG
make_together "$PWD/some where/a" "$1" "$PWD/b" hangs
"""


def nothing_hangs(folder: Path) -> bool:
    with (folder / "held").open() as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_what_cannot_be_made_ends_what_is_made_beside_it(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", MAKE_TOGETHER, ROOT, "fails"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    log = tmp_path / "some where/a.log"
    assert done.stderr == f"it broke\nmydyno: error: setting up failed; the whole output is in {log}\n"
    assert wait_until(lambda: nothing_hangs(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_that_is_being_made(tmp_path: Path, number: signal.Signals) -> None:
    # A shell cannot trap what was ignored when it began, as by nohup.
    script = subprocess.Popen(
        ["env", "--default-signal", "bash", "-euo", "pipefail", "-c", MAKE_TOGETHER, ROOT, "true"], cwd=tmp_path
    )
    assert wait_until(lambda: (tmp_path / "held").exists() and (tmp_path / "some where/a/.complete").exists())
    script.send_signal(number)
    assert script.wait(HANG_S) == 128 + number
    assert wait_until(lambda: nothing_hangs(tmp_path))
    assert not (tmp_path / "b/.complete").exists()


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
