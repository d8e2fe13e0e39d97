"""A load program from its start to its end: its process id, its output, its CPU time, and a time-out that kills it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mydyno.drivers.base import DriverOutcome, Reading, StepContext, run_measured
from mydyno.errors import DriverError
from mydyno.hosts.local import LocalHost, Process
from mydyno.model.definition.experiment import DataSpec, Step
from mydyno.model.stored.records import DriverResult
from mydyno.servers.sql import Address

HOST = LocalHost("test-measured", None)


def context(folder: Path, started: list[int], measure_s: float = 0.1) -> StepContext:
    step = Step(id="one", workload="oltp_read_only", connections=1, warmup_s=0, measure_s=measure_s, driver="fake")
    return StepContext(Address("dyno", b"x"), DataSpec(), step, folder, folder / "log", on_start=started.append)


async def test_output_exit_code_and_cpu_time_are_kept(tmp_path: Path) -> None:
    started: list[int] = []
    seen: list[str] = []

    async def read(process: Process) -> None:
        output, _ = await process.streams.communicate()
        seen.extend(output.decode().split())
        assert started == [process.pid]

    burn = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; echo done; exit 7"
    completed = await run_measured(HOST, ["sh", "-c", burn], context(tmp_path, started), read, grace_s=60)
    assert (completed.exit_code, seen) == (7, ["done"])
    assert completed.cpu.user_s > 0.01
    result = DriverResult(driver="fake", version="1", command=(), transactions=1, queries=1, duration_s=1)
    assert completed.with_cpu(result).cpu_user_s == completed.cpu.user_s


async def test_a_program_that_does_not_end_is_killed(tmp_path: Path) -> None:
    started: list[int] = []

    async def read(process: Process) -> None:
        await process.wait()

    with pytest.raises(DriverError, match=r"sleep still ran 0 s after its time was over and was killed"):
        await run_measured(HOST, ["sleep", "600"], context(tmp_path, started), read, grace_s=0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def test_readings_become_samples_of_the_instances_driver() -> None:
    result = DriverResult(driver="fake", version="1", command=(), transactions=1, queries=1, duration_s=1)
    outcome = DriverOutcome(result, (Reading(5, "qps", 1.0),), 0)
    assert [(one.scope, one.metric) for one in outcome.samples(3)] == [("driver:3", "qps")]
