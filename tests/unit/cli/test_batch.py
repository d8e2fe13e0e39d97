"""`run`, `plan` and `resume` of a study on Slurm, whose programs are scripts: all tasks are cancelled."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.unit.cli.test_command_line import mydyno

SMALL = ("--set", "server.variables.innodb_buffer_pool_size=64M", "--blocks", "2", "--on", "slurm")
PROGRAMS = {
    "sbatch": "echo 7",
    "squeue": "for block in 1 2; do echo \"7|$block|CANCELLED|node$block|None|15|\"; done",
}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> str:
    """PATH with Slurm's programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in PROGRAMS.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_a_cancelled_study_says_what_is_missing_and_resume_submits_it_again(tmp_path: Path, path: str) -> None:
    done = mydyno(tmp_path, "run", "allocators", *SMALL, PATH=path)
    (study,) = (tmp_path / "studies").iterdir()
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "2 blocks submitted to Slurm: job 7\n" in done.stderr
    assert "block 2 is MISSING on node2: CANCELLED (signal 15)\n  it has written no log: do all nodes" in done.stderr
    assert "none of the 2 blocks is finished; the reasons are above" in done.stderr
    (study / "slurm-7_1.log").write_text('{"event":"progressed","text":"x"}\nslurmstepd: error: *** CANCELLED ***\n')
    done = mydyno(tmp_path, "resume", study.name, PATH=path)
    assert done.returncode == 1
    assert "block 1 is MISSING on node1: CANCELLED (signal 15)\n  slurmstepd: error: *** CANCELLED ***\n" in done.stderr
    assert done.stderr.count("2 blocks submitted to Slurm: job 7\n") == 1


def test_a_plan_is_the_job(tmp_path: Path, path: str) -> None:
    words = ("plan", "allocators", *SMALL, "--on-option", "partition=bench", "--on-option", "parallel=1")
    done = mydyno(tmp_path, *words, PATH=path, MYDYNO_COMMAND="./mydyno")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("#!/bin/bash\n")
    assert "#SBATCH --array=1-2%1\n" in done.stdout and "#SBATCH --partition=bench\n" in done.stdout
    assert f"\nexec {tmp_path}/mydyno block {tmp_path}/studies/STUDY --block " in done.stdout
    shown = json.loads(mydyno(tmp_path, *words, "--json", PATH=path, MYDYNO_COMMAND="./mydyno").stdout)
    assert shown["job"] == done.stdout
    assert not (tmp_path / "studies").exists()
