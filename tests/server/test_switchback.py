"""The design "switchback" on a real server: one server, sessions under their arm's values, counters of each arm."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest

from mydyno.hosts.paths import HostPaths
from mydyno.store.study_folder import StudyFolder
from tests.support.interleaved import interleaved_text, slices_of, summary_of
from tests.support.not_run import note_not_run
from tests.support.real import Program

ARMS = """
control = "plain"
plain = {}
small = { variables = { tmp_table_size = 16384, sync_binlog = 0 } }
"""
STEPS = [("oltp_read_only", 4)]
QUOTA = "cgroup = { cpu_quota = 0.2 }, sysctl = { 'kernel.sched_cfs_bandwidth_slice_us' = 4000 }"
SLICE_US = Path("/proc/sys/kernel/sched_cfs_bandwidth_slice_us")


@pytest.fixture
def program(tmp_path: Path, real_paths: HostPaths, apart: list[str]) -> Program:
    return Program(tmp_path, real_paths, apart)


def test_one_server_is_loaded_under_the_settings_of_each_arm_in_turn(program: Program) -> None:
    before = program.leftovers()
    text = interleaved_text("switched", ARMS, STEPS, slice_s=0.3).replace('"interleaved"', '"switchback"')
    done = program.run("run", program.write(text))
    assert done.returncode == 0, done.stderr
    assert program.leftovers() == before
    study = program.study()
    summary = summary_of(study)
    assert (summary["design"], summary["state"]) == ("switchback", "complete")
    assert "one server at a time, its settings switched between slices" in summary["scope"]
    runs = StudyFolder(study).runs()
    assert len({run.servers[0].version for run in runs}) == 1
    for run in runs:
        assert run.valid, run.reasons
        on_disk = run.steps[0].server_counters["Created_tmp_disk_tables"]
        assert (on_disk > 100) == (run.arm == "small"), "its sessions have its own tmp_table_size, no others"
        assert any(one.treatment == "switchback" and "read back each time" in one.text for one in run.evidence)
    slices = slices_of(study)
    assert len(slices) == 2 * 3 * 3
    assert all(one.queries and one.server_cpu_s and one.server_rss_bytes is None for one in slices)
    assert all(one.idle_servers_cpu_s == 0 for one in slices), "no other server is up"
    assert len(list(study.glob("blocks/01/*/my.cnf"))) == 1
    assert "tmp_table_size" not in next(study.glob("blocks/01/*/my.cnf")).read_text()


def test_a_cpu_quota_and_kernel_settings_are_switched_too(program: Program) -> None:
    wanting, before = SLICE_US.read_text(), program.leftovers()
    arms = ARMS.replace("variables = { tmp_table_size = 16384, sync_binlog = 0 }", QUOTA)
    arms = arms.replace("plain = {}", "plain = { cgroup = { cpu_quota = 1.5 } }")
    text = interleaved_text("quota", arms, STEPS, slice_s=0.5).replace('"interleaved"', '"auto"')
    done = program.run("run", program.write(text))
    if "cgroup" in done.stderr and done.returncode == 2:
        note_not_run(f"a switched quota: {done.stderr}")
        return
    assert done.returncode == 0, done.stderr
    assert (program.leftovers(), SLICE_US.read_text()) == (before, wanting)
    study = program.study()
    assert summary_of(study)["design"] == "switchback"
    for run in StudyFolder(study).runs():
        assert run.valid, run.reasons
        proofs = [one.text for one in run.evidence if one.treatment == "cgroup"]
        assert proofs
        assert all(f"quota {0.2 if run.arm == 'small' else 1.5} CPUs (read back)" in text for text in proofs[:1])
    slices = slices_of(study)
    used = {
        arm: [(one.server_cpu_s or 0.0) / one.length_s for one in slices if one.arm == arm]
        for arm in ("plain", "small")
    }
    assert max(used["small"]) < 0.3, "CPUs, with the threads that were running when the quota was used up"
    assert mean(used["plain"]) > mean(used["small"]), "single slices may get little beside other programs"


def test_a_variable_of_the_start_is_refused_in_the_first_block(program: Program) -> None:
    arms = ARMS.replace("tmp_table_size = 16384", "performance_schema = true")
    text = interleaved_text("refused", arms, STEPS).replace('"interleaved"', '"switchback"')
    done = program.run("run", program.write(text))
    assert done.returncode == 3
    assert "read only variable" in done.stderr
    assert 'design.kind = "interleaved"' in done.stderr
