"""The design "switchback" on a real server: one server, sessions under their arm's values, counters of each arm."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from statistics import mean

import pytest

from mydyno.hosts.limits import affinities_of
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.quantities import ranges_of
from mydyno.store.study_folder import StudyFolder
from mydyno.treatments.affinity import apart, usable_cores
from tests.support.interleaved import interleaved_text, slices_of, summary_of
from tests.support.network_study import means_or_words
from tests.support.not_run import note_not_run
from tests.support.patience import pause, wait_until
from tests.support.real import Program, interrupt, server_pid, study_processes, wait_for

ARMS = """
control = "plain"
plain = {}
small = { variables = { tmp_table_size = 16384, sync_binlog = 0 } }
"""
STEPS = [("oltp_read_only", 4)]
QUOTA = "cgroup = { cpu_quota = 0.2 }, sysctl = { 'kernel.sched_cfs_bandwidth_slice_us' = 4000 }"
MOVED = """
control = "plain"
plain = {}
moved = { affinity = "apart" }
"""
QUEUES = sorted(Path("/sys/block").glob("*/queue/scheduler"))
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


def test_a_servers_threads_are_moved_and_each_load_program_keeps_its_cpus(program: Program) -> None:
    divided = apart(usable_cores())
    if divided is None:
        note_not_run("a switched affinity: one CPU")
        return
    (own, load), here, before = divided, os.sched_getaffinity(0), program.leftovers()
    text = interleaved_text("moved", MOVED, STEPS, blocks=1, slice_s=0.3).replace('"interleaved"', '"switchback"')
    seen: dict[tuple[str, int], set[frozenset[int]]] = {}
    with program.started("run", program.write(text)) as process:
        while process.poll() is None:
            before_s = time.thread_time()
            for pid, command in study_processes().items():
                name = "server" if pid == server_pid() else "load" if "--slices" in command else ""
                for cpus in affinities_of(pid) if name and program.in_slices() else ():
                    seen.setdefault((name, pid), set()).add(frozenset(cpus))
            pause(before_s, 0.02)
        assert process.wait() == 0
    assert program.leftovers() == before
    study = program.study()
    assert (
        "switched to each arm's affinity in turn" in program.run("plan", str(program.folder / "experiment.toml")).stdout
    )
    (of_server,) = (cpus for (name, _), cpus in seen.items() if name == "server")
    assert of_server == {frozenset(here), frozenset(own)}
    of_loads = [cpus for (name, _), cpus in seen.items() if name == "load"]
    assert all(len(cpus) == 1 for cpus in of_loads), "none is moved"
    assert sorted(map(sorted, set().union(*of_loads))) == sorted([sorted(here), load])
    for run in StudyFolder(study).runs():
        assert run.valid, run.reasons
        proofs = [one for one in run.evidence if one.treatment == "affinity"]
        assert len(proofs) == (2 if run.arm == "moved" else 0), "before and after the load"
        assert all(one.facts["server_cpus"] == [ranges_of(own)] for one in proofs)


@pytest.mark.alone
def test_a_disks_scheduler_is_given_back_after_every_slice_and_after_kill_9(program: Program) -> None:
    disk = next((path for path in QUEUES if "[mq-deadline]" in path.read_text()), None)
    if disk is None:
        note_not_run("a switched scheduler: no disk has mq-deadline")
        return
    before = queue_of(disk)
    arms = f"""control = "plain"\nplain = {{}}\nnone = {{ sysctl = {{ "{disk}" = "none" }} }}\n"""
    text = interleaved_text("queue", arms, STEPS, blocks=1, slice_s=0.4).replace('"interleaved"', '"switchback"')
    path = program.write(text)

    def switched(process: subprocess.Popen[bytes]) -> None:
        wait_for(lambda: program.in_slices() and "[none]" in disk.read_text(), process)

    with program.started("run", path) as process:
        switched(process)
        assert interrupt(process) == 130
    assert queue_of(disk) == before
    with program.started("resume", str(program.study())) as process:
        switched(process)
        process.kill()
    assert wait_until(lambda: not study_processes())
    assert program.run("clean").returncode == 0
    assert queue_of(disk) == before
    done = program.run("resume", str(program.study()))
    assert done.returncode == 0, done.stderr
    assert queue_of(disk) == before
    assert summary_of(program.study())["design"] == "switchback"
    for run in StudyFolder(program.study()).runs():
        assert run.valid, run.reasons
        assert [one.text for one in run.evidence if one.treatment == "sysctl"] == (
            [f"{disk} = none (read back)"] if run.arm == "none" else []
        )


def test_a_link_is_shaped_for_each_slice_and_sessions_keep_their_tls(program: Program) -> None:
    if not means_or_words():
        return
    arms = """control = "wide"\nwide = { network = "1gbit" }\nnarrow = { network = "5mbit" }\n"""
    arms += "[treatments]\ntls = '1.3'\ncompression = 'zlib'\n"
    text = interleaved_text("link", arms, STEPS, 1, 6, slice_s=0.4).replace('"interleaved"', '"switchback"')
    before = program.leftovers()
    done = program.run("run", program.write(text))
    assert done.returncode == 0, done.stderr
    assert program.leftovers() == before
    for run in StudyFolder(program.study()).runs():
        assert run.valid, run.reasons
        texts = {one.treatment: one.text for one in run.evidence}
        assert ("Ethernet of 5 Mbit/s" in texts["network"]) == (run.arm == "narrow")
        assert "(4 with TLSv1.3" in texts["tls"]
        assert "MB of packets came as" in texts["compression"]
    fast, slow = (
        mean(one.queries / one.length_s for one in slices_of(program.study()) if one.arm == arm)
        for arm in ("wide", "narrow")
    )
    assert fast > 2 * slow


def queue_of(disk: Path) -> dict[str, str]:
    """What the kernel sets with a scheduler."""
    files = (disk, disk.with_name("nr_requests"), disk.with_name("wbt_lat_usec"), *disk.with_name("iosched").glob("*"))
    return {file.name: file.read_text() for file in files}


def test_a_variable_of_the_start_is_refused_in_the_first_block(program: Program) -> None:
    arms = ARMS.replace("tmp_table_size = 16384", "performance_schema = true")
    text = interleaved_text("refused", arms, STEPS).replace('"interleaved"', '"switchback"')
    done = program.run("run", program.write(text))
    assert done.returncode == 3
    assert "read only variable" in done.stderr
    assert 'design.kind = "interleaved"' in done.stderr
