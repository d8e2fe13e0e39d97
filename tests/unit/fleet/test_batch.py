"""Jobs for Slurm and Kubernetes: as golden files, and the block that they start, executed as they would."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from mydyno.evaluation.facts import summarise
from mydyno.execution.interleaved.order import BlockOrder
from mydyno.fleet.batch import Batch, kubernetes_job, slurm_script
from mydyno.fleet.block import execute_block
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.plan import Design, make_plan
from mydyno.model.stored.records import StudyRecord
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_environment import opener
from tests.support.fake_script import Script, experiment
from tests.support.golden import check_golden

BATCH = Batch(Path("/shared/studies/allocators-20261123T120000Z"), 10, 61.0, parallel=4)


def test_the_slurm_script_is_as_the_golden_file() -> None:
    check_golden("slurm.sh", slurm_script(BATCH))


def test_the_kubernetes_job_is_as_the_golden_file() -> None:
    check_golden("kubernetes.json", json.dumps(kubernetes_job(BATCH, "registry/mydyno:1", "studies"), indent=1) + "\n")


def test_a_study_without_a_limit_uses_all_nodes() -> None:
    batch = Batch(Path("/studies/it's"), 3, 10.0)
    assert "#SBATCH --array=1-3\n" in slurm_script(batch)
    assert "mydyno block '/studies/it'\"'\"'s' --block" in slurm_script(batch)
    assert kubernetes_job(batch, "image", "claim")["spec"]["parallelism"] == 3


def test_pods_of_two_studies_never_share_a_node() -> None:
    (term,) = kubernetes_job(BATCH, "image", "claim")["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["labelSelector"] == {"matchLabels": {"app.kubernetes.io/name": "mydyno"}}


def test_data_is_on_a_volume_of_the_node() -> None:
    pod = kubernetes_job(BATCH, "image", "claim")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (data,) = [one["value"] for one in container["env"] if one["name"] == "MYDYNO_DATA"]
    (name,) = [one["name"] for one in container["volumeMounts"] if one["mountPath"] == data]
    assert {"name": name, "emptyDir": {}} in pod["volumes"]


def test_slurm_signals_the_shell_that_becomes_the_block_and_data_is_local_to_the_node() -> None:
    lines = slurm_script(BATCH).splitlines()
    assert "#SBATCH --signal=B:TERM@90" in lines
    (data,) = [line for line in lines if line.startswith("export MYDYNO_DATA=")]
    command = ["bash", "-c", f'{data}; echo "$MYDYNO_DATA"']
    path = os.environ["PATH"]
    for environment, found in (({"SLURM_TMPDIR": "/scratch/7"}, "/scratch/7/mydyno-data-"), ({}, "/tmp/mydyno-data-")):
        done = subprocess.run(command, env={"PATH": path, **environment}, capture_output=True, text=True, check=True)
        assert done.stdout.startswith(found)
    done = subprocess.run(
        command, env={"PATH": path, "MYDYNO_DATA": "/nvme"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "/nvme\n"


@pytest.mark.parametrize(
    ("study", "label"),
    [
        ("a" * 80 + "-20261123T120000Z", "a" * 33 + "-20261123t120000z"),
        ("a" * 80 + "-b" * 25, "b" + "-b" * 24),
    ],
)
def test_a_long_name_keeps_its_time_and_ends_in_a_letter_or_digit(study: str, label: str) -> None:
    job = kubernetes_job(Batch(Path("/studies") / study, 3, 10.0), "image", "claim")
    assert job["metadata"]["name"] == f"mydyno-{label}"


async def test_blocks_that_nodes_execute_in_a_shared_folder_are_one_study(
    tmp_path: Path, paths: HostPaths, script: Script
) -> None:
    """Two nodes, each with a cache of its own; the second block of one is executed while another's is unfinished."""
    asked = experiment(("glibc", "jemalloc"), design={"kind": "interleaved", "blocks": 3, "cycles": 2, "quiet_wait": 0})
    study = StudyRecord(study="fake-1", created_unix_ns=1, mydyno_version="1", experiment=asked)
    folder = StudyFolder.create(tmp_path / "fake-1", study, make_plan(asked, Design("interleaved")))
    other = folder.begin_block(2)
    for number, node in ((1, "node-a"), (3, "node-b")):
        await execute_block(folder.path, BlockOrder(number), paths, lambda _: None, opener(script), group=node)
    assert other.is_dir(), "what another node is at is left alone"
    await execute_block(folder.path, BlockOrder(2), paths, lambda _: None, opener(script), group="node-b")
    assert {run.block: run.host_group for run in folder.runs()} == {1: "node-a", 2: "node-b", 3: "node-b"}
    assert summarise(folder).state == "complete"
    began = script.events.count("start")
    await execute_block(folder.path, BlockOrder(2), paths, lambda _: None, opener(script), group="node-b")
    assert script.events.count("start") == began, "a requeued task finds its block finished"
