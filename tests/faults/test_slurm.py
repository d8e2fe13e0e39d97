"""A study on a real Slurm of three nodes; its controller is killed, then a node that executes a block."""

from __future__ import annotations

import json

import pytest

from mydyno.store.study_folder import StudyFolder
from tests.support.interleaved import interleaved_text, summary_of
from tests.support.not_run import note_not_run
from tests.support.patience import ended, wait_until
from tests.support.real import Leftovers, Program, wait_for
from tests.support.real_slurm import real_slurm

pytestmark = pytest.mark.exhaustive

ARMS = 'control = "one"\none = { environment = { MARK = "one" } }\ntwo = { environment = { MARK = "two" } }\n'


def test_a_study_outlives_its_controller_and_a_node(program: Program, parts: None, before: Leftovers) -> None:
    with real_slurm(program) as slurm:
        if isinstance(slurm, str):
            note_not_run(f"a study on Slurm: {slurm}")
            pytest.skip(slurm)
        path = program.write(
            interleaved_text("slurm", ARMS, [("oltp_point_select", 4)], blocks=4, cycles=2, slice_s=0.5)
        )
        refused = program.run("run", path, "--on", "slurm", "--on-option", "partition=none")
        assert refused.returncode == 3
        assert "invalid partition specified: none" in refused.stderr
        assert not program.studies.exists()
        with program.started("run", path, "--on", "slurm") as controller:
            wait_for(slurm.blocks, controller)
            controller.kill()
            controller.wait()
        study = program.study()
        with program.started("resume", study.name) as controller:
            wait_for(lambda: "study_resumed" in program.events(), controller)
            # One that waits for its turn on this host shows no servers yet.
            running = wait_for(slurm.blocks, controller)
            block, (pid, node) = max(running.items())
            slurm.kill_node(node, pid)
            assert ended(controller, "the study") == 0, program.output()
        said = program.output()
        assert f"block {block} LOST on {node}: NODE_FAIL" in said
        assert "block submitted to Slurm: job" in said and "blocks submitted to Slurm: job" not in said
        assert wait_until(lambda: not slurm.run("squeue", "--noheader").strip())
    folder = StudyFolder.open(study)
    events = [json.loads(line) for line in (study / "journal.jsonl").read_text().splitlines()]
    submitted = [event["blocks"] for event in events if event["event"] == "blocks_submitted"]
    assert submitted == [[1, 2, 3, 4], [block]], "each once, and the lost one again"
    assert {run.block for run in folder.runs()} == {1, 2, 3, 4}
    assert {run.host_group for run in folder.runs() if run.block == block}.isdisjoint({node})
    assert not [run.folder for run in folder.runs() if run.failed]
    assert summary_of(study)["state"] == "complete"
