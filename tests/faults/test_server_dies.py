"""The database server dies or cannot go on: that run is invalid with the server's words, and the study goes on."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.test_killed import FAILPOINTS
from tests.support.real import ONE_ARM, SHORT_STEP, Leftovers, Program, end, experiment_text, server_pid
from tests.support.worded import worded_json


def test_a_server_killed_while_measured_makes_that_run_invalid_and_no_other(
    program: Program, before: Leftovers
) -> None:
    path = program.write(experiment_text("dies", ONE_ARM, SHORT_STEP.replace('measure = "1s"', 'measure = "3s"')))
    with program.stopped_at(FAILPOINTS["measure"], "run", path, "--json") as process:
        pid = server_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert end(process, signal.SIGCONT) == 0
    summary = worded_json(program.study())
    assert [run["valid"] for run in summary["runs"]] == [False, True]
    dead = summary["runs"][0]
    assert "the server ended with exit code -9 during oltp_read_only-2" in dead["reasons"][0]["text"]
    assert "error log:" in dead["reasons"][0]["text"], "the tail of the server's log belongs to every failure"
    assert dead["values"] == {}
    assert "failed in 1 of 1 block (" in " ".join(summary["answer"])
    finished = json.loads((program.study() / dead["folder"] / "run.json").read_text())
    assert finished["valid"] is False


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[tuple[Path, list[str]]]:
    """A tmpfs over the folder in a mount namespace of its own: (the folder as seen from here, how to enter)."""
    script = f'mount -t tmpfs -o size={size},mode=0755 mydyno-test "{folder}" && echo mounted && read _'
    holder = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"mounted\n"
        seen = Path(f"/proc/{holder.pid}/root") / folder.relative_to("/")
        yield seen, ["nsenter", f"--mount=/proc/{holder.pid}/ns/mnt", f"--wd={folder.parent}"]
    finally:
        holder.kill()
        holder.communicate()


@contextmanager
def suppress_full_disk() -> Iterator[None]:
    """Goes on behind the block at the error of a full disk."""
    try:
        yield
    except OSError as error:
        assert error.errno == errno.ENOSPC


def fill(folder: Path) -> Path:
    """A file that takes the whole rest of the disk."""
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file:
        # In few calls: the load that is to see the full disk lasts for seconds only. In several: a call that meets the
        # end of the disk, because something else is growing too, allocates nothing.
        for size in (16 << 20, 1 << 20, 4096):
            with suppress_full_disk():
                while True:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)
    return filler


def needs_root() -> None:
    able = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    if os.geteuid() != 0 or not able:
        pytest.skip("no right to mount: a small disk cannot be made here, so full disks are not tested")


@pytest.mark.exhaustive
def test_a_disk_full_of_data_is_the_servers_failure_and_the_study_can_be_resumed(
    program: Program, before: Leftovers
) -> None:
    needs_root()
    disk = program.folder / "disk"
    disk.mkdir()
    inserts = SHORT_STEP.replace("oltp_read_only", "oltp_insert").replace('measure = "1s"', 'measure = "6s"')
    path = program.write(experiment_text("full", ONE_ARM, inserts))
    with small_disk(disk, "480m") as (seen, enter):
        inside = replace(program, prefix=[*program.prefix, *enter], paths=replace(program.paths, data=disk / "data"))
        with inside.stopped_at(FAILPOINTS["warm-up"], "run", path) as process:
            filler = fill(seen)
            assert end(process, signal.SIGCONT) == 3
        assert "INVALID: sysbench oltp_insert-2 failed" in inside.output()
        assert "The table 'sbtest1' is full" in inside.output()
        assert "free on the disk of" in inside.output(), "the next run is not begun on a full disk"
        assert "Traceback" not in inside.output()
        assert not list((seen / "data/runs").glob("*"))
        filler.unlink()
        done = inside.run("resume", str(program.study()))
        assert done.returncode == 0, done.stderr
    summary = worded_json(program.study())
    assert [run["valid"] for run in summary["runs"]] == [False, True]


@pytest.mark.exhaustive
def test_a_disk_full_of_studies_loses_the_run_that_could_not_be_saved_and_no_other(
    program: Program, before: Leftovers
) -> None:
    needs_root()
    program.studies.mkdir()
    path = program.write(experiment_text("full", ONE_ARM, SHORT_STEP))
    with small_disk(program.studies, "16m") as (seen, enter):
        inside = replace(program, prefix=[*program.prefix, *enter])
        with inside.stopped_at(f"run_finished,{FAILPOINTS['warm-up']}", "run", path) as process:
            filler = fill(seen)
            assert end(process, signal.SIGCONT) == 1
        assert "mydyno: error: No space left on device" in inside.output()
        assert "fix the cause, then continue: mydyno resume" in inside.output()
        assert "Traceback" not in inside.output()
        assert program.leftovers() == before
        fill(seen)
        (study,) = (path for path in seen.iterdir() if path != filler)
        report = inside.run("report", str(program.studies / study.name))
        assert report.returncode == 3
        assert f"mydyno: error: {program.studies / study.name}/summary.json: No space left on device" in report.stderr
        assert "Traceback" not in report.stderr
        assert not list(study.glob(".*.new"))
        filler.unlink()
        done = inside.run("resume", str(program.studies / study.name))
        assert done.returncode == 0, done.stderr
        assert json.loads((study / "summary.json").read_text())["state"] == "complete"
