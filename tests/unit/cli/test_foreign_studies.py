"""Studies and servers of strangers: what only reads them starts no program, what executes them needs consent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mydyno.hosts.server_user import OWN_IDS
from tests.support import ROOT
from tests.support.fake_study_folder import Shape, build
from tests.support.oci import image, layer, layout
from tests.support.server_archive import fake_archive, fake_program
from tests.support.web_server import WebServer
from tests.unit.cli.test_command_line import mydyno

NOBODY = 65534
NAMES = ("allocators-20261118T110640Z", "allocators-20261119T110640Z")
WATCHED = """
import os, sys
def refuse(event, arguments):
    starts = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork", "os.forkpty", "ctypes.dlopen")
    if event in starts and arguments[:1] != (None,) and not (OF_HOST and "studies" not in repr(arguments[:2])):
        print("STARTED", event, arguments, file=sys.stderr, flush=True)
        os._exit(99)
# `list` tries what this host can do, by the host's own programs.
OF_HOST = "list" in sys.argv
import numpy, scipy, scipy.stats, duckdb  # they load their own libraries
import mydyno.cli
sys.addaudithook(refuse)
sys.exit(mydyno.cli.main())
"""


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    """Two studies whose server lies in their folders, as a stranger's archive may have it."""
    for name in NAMES:
        folder = tmp_path / "studies" / name
        build(folder, Shape(arms=("glibc", "jemalloc"), connections=(16,), blocks=2, warmup_s=2, measure_s=4))
        set_basedir(folder, str(folder / "server"))
        program = folder / "server/bin/mysqld"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\nid -u >{tmp_path}/ran\n")
        program.chmod(0o755)
    return tmp_path / "studies"


def set_basedir(folder: Path, basedir: str) -> None:
    record = json.loads((folder / "study.json").read_text())
    record["experiment"]["server"] = {"basedir": basedir}
    (folder / "study.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("report", NAMES[0]),
        ("report", NAMES[0], "--format", "md"),
        ("report", NAMES[0], "--format", "json"),
        ("report", NAMES[0], "--format", "csv"),
        ("report", NAMES[0], "--format", "html"),
        ("compare", *NAMES),
        ("history", NAMES[0]),
        ("gate", NAMES[0], "--threshold", "qps=no worse than -2%"),
    ],
    ids=lambda arguments: "-".join(one for one in arguments if one not in NAMES),
)
def test_commands_that_read_a_study_start_no_program(studies: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MYDYNO_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "STARTED" not in done.stderr, done.stderr
    assert done.returncode in (0, 4, 5), done.stderr
    assert done.stdout
    assert not (tmp_path / "ran").exists()


def test_pages_start_no_program(studies: Path, tmp_path: Path) -> None:
    with WebServer(studies, launcher=("-c", WATCHED)) as server:
        server.log_in()
        for page in ("/", f"/studies/{NAMES[0]}", f"/compare?study={NAMES[0]}&study={NAMES[1]}"):
            assert server.get(page).status == 200
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: None, "server.basedir = "),
        (lambda folder: set_basedir(folder, f"studies/{folder.name}/server"), "came with the study"),
        (lambda folder: set_basedir(folder, f"/{folder}/blocks/../server"), "came with the study"),
        (lambda folder: os.chown(folder, 65534, 65534), "belongs to nobody, who decides what is executed"),
        (lambda folder: os.chown(folder / "study.json", 65534, 65534), "belongs to nobody"),
        (lambda folder: os.chown(folder / "plan.json", 65534, 65534), "belongs to nobody"),
    ],
)
def test_a_strangers_study_is_continued_only_with_consent(
    studies: Path, tmp_path: Path, change: Callable[[Path], None], words: str
) -> None:
    if "belongs" in words and os.geteuid() != 0:
        return  # only root can give files away
    folder = studies / NAMES[0]
    change(folder)
    done = mydyno(tmp_path, "resume", NAMES[0])
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr and "--trust" in done.stderr
    trusted = mydyno(tmp_path, "resume", NAMES[0], "--trust")
    assert "--trust" not in trusted.stderr
    assert not (tmp_path / "ran").exists(), "all of its runs are there"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has another user to run programs as")
@pytest.mark.parametrize("kind", ["archive", "image"])
def test_a_program_of_an_archive_never_runs_as_root(short_folder: Path, tmp_path: Path, kind: str) -> None:
    ran = short_folder / "ran"
    ran.touch()
    ran.chmod(0o666)
    program = fake_program("8.4.3").replace(b"#!/bin/sh\n", f"#!/bin/sh\nid -u >>{ran}\n".encode(), 1)
    if kind == "image":
        files = {"usr/sbin/mysqld": program, "usr/share/mysql/english/errmsg.sys": b"messages"}
        entry = image(tmp_path / "image", [layer(files)])
        layout(tmp_path / "image", [entry])
        done = mydyno(tmp_path, "servers", "add", "own", "--oci", "image", "--sha256", entry["digest"])
    else:
        digest = fake_archive(tmp_path / "own.tar.gz", extra={"bin/mysqld": program})
        done = mydyno(tmp_path, "servers", "add", "own", "--archive", "own.tar.gz", "--sha256", digest)
    assert "Traceback" not in done.stderr
    users = [int(one) for one in ran.read_text().split()]
    assert users and all(one in OWN_IDS or one == NOBODY for one in users), (users, done.stderr)
