"""Slurm: the script as a golden file, and what its programs print, as Slurm 22.05 does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mydyno.errors import HostError, UserError
from mydyno.fleet.batch.slurm import Slurm
from mydyno.fleet.batch.system import Task, output_of
from mydyno.model.definition.host_groups import BatchJob
from tests.support.golden import check_golden

JOB = BatchJob(
    system="slurm",
    name="mydyno-allocators-20261123t120000z-5a1e",
    limit_s=1140,
    program="/shared/mydyno/mydyno",
    options=("partition=bench", "parallel=4", "program=/shared/mydyno/mydyno"),
)
QUEUE = """\
1|2|COMPLETED|node2|None|0|
1|4|FAILED|node1|JobLaunchFailure|9|
1|1|FAILED|node1|NonZeroExitCode|768|
1|6|PENDING||Resources|0|
1|5|CANCELLED|node2|None|15|
1|3|RUNNING|node3|None|0|
9|4|RUNNING|node2|None|0|
9|7|FAILED||BadConstraints|1|
9|8|FAILED|node1|NonZeroExitCode|512|
9|N/A|CANCELLED||Resources|0|
"""
ACCOUNTS = """\
1_1|FAILED|node1|1:0
1_9|TIMEOUT|node1|0:0
1_10|CANCELLED by 1000|node2|0:15
1_[12,14%4]|CANCELLED by 1000|None assigned|0:0
"""
Programs = Callable[..., None]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Put programs in PATH: shell scripts, which are called with their bodies."""

    def put(**bodies: str) -> None:
        for name, body in bodies.items():
            (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/calls\n{body}\n')
            (tmp_path / name).chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return put


def test_the_script_is_as_the_golden_file() -> None:
    study = Path("/shared/studies/allocators-20261123T120000Z")
    check_golden("slurm.sh", Slurm(study, JOB).text(range(1, 11)))


def test_data_is_local_to_the_node() -> None:
    (line,) = [line for line in Slurm(Path("/s"), JOB).text([1]).splitlines() if line.startswith("export")]
    command = ["sh", "-c", f'{line}; echo "$MYDYNO_DATA"']
    for environment, found in (
        ({"SLURM_TMPDIR": "/scratch/7"}, "/scratch/7/mydyno-data-"),
        ({}, "/tmp/mydyno-data-"),
        ({"MYDYNO_DATA": "/nvme"}, "/nvme\n"),
    ):
        of_node = {"PATH": os.environ["PATH"], **environment}
        done = subprocess.run(command, env=of_node, capture_output=True, text=True, check=True)
        assert done.stdout.startswith(found)
    asked = JOB.model_copy(update={"data": "/mnt/it's"})
    assert """export MYDYNO_DATA='/mnt/it'"'"'s'\n""" in Slurm(Path("/s"), asked).text([1])


async def test_tasks_are_those_of_the_last_job_and_those_that_squeue_has_forgotten(
    programs: Programs, tmp_path: Path
) -> None:
    programs(squeue=f"cat <<'END'\n{QUEUE}END", sacct=f"cat <<'END'\n{ACCOUNTS}END")
    slurm = Slurm(tmp_path, JOB)
    (tmp_path / "slurm-9.sh").write_text(slurm.text([4, 7, 8, 11]))
    found = await slurm.tasks(range(1, 15))
    assert {block: (task.phase, task.state, task.node, task.again) for block, task in sorted(found.items())} == {
        1: ("failed", "FAILED (exit code 3)", "node1", True),
        2: ("succeeded", "COMPLETED", "node2", True),
        3: ("running", "RUNNING", "node3", True),
        4: ("running", "RUNNING", "node2", True),
        5: ("failed", "CANCELLED (signal 15)", "node2", False),
        6: ("waiting", "PENDING (Resources)", "", True),
        7: ("failed", "FAILED (BadConstraints, signal 1)", "", True),
        8: ("failed", "FAILED (exit code 2)", "node1", False),
        9: ("failed", "TIMEOUT", "node1", True),
        10: ("failed", "CANCELLED (signal 15)", "node2", False),
        11: ("failed", "CANCELLED (Resources)", "", False),
        12: ("failed", "CANCELLED", "", False),
        14: ("failed", "CANCELLED", "", False),
    }
    assert found[4].log == f"{tmp_path}/slurm-9_4.log"


async def test_a_cluster_without_accounting_has_squeue_alone(programs: Programs) -> None:
    programs(squeue="echo '1|1|COMPLETED|node2|None|0|'", sacct="echo Slurm accounting storage is disabled >&2; exit 1")
    assert set(await Slurm(Path("/s"), JOB).tasks([1, 2])) == {1}


async def test_a_job_that_needs_the_avoided_nodes_gets_them(programs: Programs, tmp_path: Path) -> None:
    programs(sbatch='case "$*" in *--exclude*) echo no such nodes >&2; exit 1;; esac; echo "12;cluster"')
    assert await Slurm(tmp_path, JOB).submit([3], {"b", "a"}) == "job 12"
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"sbatch --parsable --exclude=a,b {tmp_path}/slurm.sh",
        f"sbatch --parsable {tmp_path}/slurm.sh",
    ]
    assert "#SBATCH --array=3%4\n" in (tmp_path / "slurm-12.sh").read_text()


async def test_what_refuses_is_said_in_its_words(programs: Programs, tmp_path: Path) -> None:
    programs(sbatch="echo sbatch: error: invalid partition >&2; exit 1", squeue="exit 7")
    with pytest.raises(HostError, match=r"^sbatch: error: invalid partition$"):
        await Slurm(tmp_path, JOB).submit([1], ())
    with pytest.raises(HostError, match=r"^squeue: exit code 7$"):
        await output_of("squeue")


async def test_the_log_is_in_the_studys_folder(tmp_path: Path) -> None:
    slurm, log = Slurm(tmp_path, JOB), tmp_path / "log"
    assert await slurm.log(Task(1, "failed", "", log=str(log))) == ""
    log.write_text("x" * 100_000 + "\nerror\n")
    assert (await slurm.log(Task(1, "failed", "", log=str(log)))).endswith("x\nerror\n")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--partition=bench", "without its dashes"),
        ("parallel=many", "not a number"),
        ("comment=a\nb", "not a long option of sbatch"),
    ],
)
def test_options_that_are_none(option: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        Slurm(Path(), JOB.model_copy(update={"options": (option,)})).check()


def test_a_host_without_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostError, match="--on slurm: there is no sbatch in PATH"):
        Slurm(Path(), JOB).check()
