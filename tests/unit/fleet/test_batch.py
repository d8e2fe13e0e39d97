"""Jobs for Slurm and Kubernetes: as golden files, and the block that they start, executed as they would."""

from __future__ import annotations

import json
from pathlib import Path

from mydyno.fleet.batch import Batch, kubernetes_job, slurm_script
from mydyno.fleet.block import BlockOrder, execute_block
from mydyno.hosts.paths import HostPaths
from mydyno.model.plan import Design, make_plan
from mydyno.model.records import StudyRecord
from mydyno.results.summarise import summarise
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_environment import Script, experiment, opener
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


async def test_blocks_that_nodes_execute_in_a_shared_folder_are_one_study(
    tmp_path: Path, paths: HostPaths, script: Script
) -> None:
    """Two nodes, each with a cache of its own; the second block of one is executed while another's is unfinished."""
    asked = experiment(("glibc", "jemalloc"), design={"kind": "interleaved", "blocks": 3, "cycles": 2, "quiet_wait": 0})
    study = StudyRecord(study="fake-1", created_unix_ns=1, mydyno_version="1", experiment=asked)
    folder = StudyFolder.create(tmp_path / "fake-1", study, make_plan(asked, Design("interleaved")))
    other = folder.begin_block(2)
    for number, node in ((1, "node-a"), (3, "node-b")):
        await execute_block(folder.path, BlockOrder(number, group=node), paths, lambda _: None, opener(script))
    assert other.is_dir(), "what another node is at is left alone"
    await execute_block(folder.path, BlockOrder(2, group="node-b"), paths, lambda _: None, opener(script))
    assert {run.block: run.host_group for run in folder.runs()} == {1: "node-a", 2: "node-b", 3: "node-b"}
    assert summarise(folder).state == "complete"
    began = script.events.count("start")
    await execute_block(folder.path, BlockOrder(2, group="node-b"), paths, lambda _: None, opener(script))
    assert script.events.count("start") == began, "a requeued task finds its block finished"
