"""The kernel view of a real server: a planted fsync leads, and nothing of bpftrace is left, also after kill -9."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mydyno.hosts.paths import HostPaths
from mydyno.hosts.tracing.bpftrace import kernel_obstacle, with_tracefs
from mydyno.store.samples import KERNEL_FILE, read_slices
from tests.support.interleaved import interleaved_text, slices_of, summary_of
from tests.support.not_run import note_not_run
from tests.support.patience import wait_until
from tests.support.real import ROOT, Program

ARMS = """\
control = "relaxed"
relaxed = { variables = { innodb_flush_log_at_trx_commit = 0 } }
durable = { variables = { innodb_flush_log_at_trx_commit = 1 } }
"""


TRACING = """
import asyncio, os, sys
from pathlib import Path
from types import SimpleNamespace
from mydyno.execution.counters.programs import BpftraceCounting
from mydyno.hosts.local import LocalHost

async def main():
    server = SimpleNamespace(pid=os.getpid(), address=lambda user: SimpleNamespace(socket="/nowhere", port=0))
    counting = BpftraceCounting(LocalHost("test", None), Path(sys.argv[1]), [server])
    await counting.begin()
    print(counting._process.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""
"""Traces itself until it is killed, and prints the tracer's process ID."""


@pytest.fixture
def program(tmp_path: Path, real_paths: HostPaths, apart: list[str]) -> Program:
    return Program(tmp_path, real_paths, apart)


def traced(program: Program) -> str:
    text = interleaved_text("kernel", ARMS, [("oltp_write_only", 4)], blocks=1, cycles=1)
    return program.write(text)


@pytest.mark.exhaustive
def test_more_fsync_and_block_writes_are_found_where_they_are(program: Program) -> None:
    obstacle = kernel_obstacle()
    if obstacle is not None:
        note_not_run(f"the kernel view of a server: {obstacle}")
        refused = program.run("run", traced(program), "--kernel")
        assert refused.returncode == 3
        assert "profile.kernel" in refused.stderr
        return
    before = program.leftovers()
    done = program.run("run", traced(program), "--kernel")
    assert done.returncode == 0, done.stderr
    assert program.leftovers() == before
    study = program.study()
    assert sum(len(read_slices(path)) for path in study.glob(f"blocks/*/{KERNEL_FILE}")) == 3
    assert not any(one.profiled for one in slices_of(study))
    kernel = summary_of(study)["kernel"]
    assert kernel.get("missing", []) == []
    (contrast,) = kernel["contrasts"]
    rows = {one["measure"]: one for one in contrast["rows"]}
    sync = rows["file_sync"]
    assert sync["arm_count"] > 0.2 > 5 * sync["control_count"]
    assert sync["arm_us"] > 5 * sync["control_us"]
    calls = rows["system_call/fdatasync"]
    assert calls["arm_count"] == pytest.approx(sync["arm_count"], rel=0.1)
    assert rows["run_queue"]["control_us"] > 0
    assert rows["run_queue"]["control_percentiles_us"]["p50"] > 0
    assert rows["system_call/sendto"]["control_count"] > 1, "each statement is answered"


def test_the_tracer_ends_with_mydyno_after_kill_9(tmp_path: Path) -> None:
    obstacle = kernel_obstacle()
    if obstacle is not None:
        note_not_run(f"a kill during the kernel view: {obstacle}")
        return
    with subprocess.Popen(
        [sys.executable, "-c", TRACING, str(tmp_path)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}"},
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            tracer = Path("/proc", process.stdout.readline().strip())
            assert b"bpftrace" in (tracer / "cmdline").read_bytes()
            assert (tracer / "ns/mnt").readlink() != Path("/proc/self/ns/mnt").readlink() or not with_tracefs()
        finally:
            process.kill()
    assert wait_until(lambda: not (tracer / "ns").exists() or not (tracer / "cmdline").read_bytes())
    assert not any(line.split()[2] == "tracefs" for line in Path("/proc/self/mounts").read_text().splitlines()
                   if with_tracefs())  # fmt: skip
