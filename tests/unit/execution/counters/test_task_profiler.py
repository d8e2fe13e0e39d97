"""The sampler of /proc as a profiler: it records until it is stopped, and takes no more than its share of a CPU."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import cast

import pytest

from mydyno.errors import HostError
from mydyno.execution.counters.task_profiler import (
    MOST_HZ,
    THREAD,
    USER_CODE,
    TaskProfiler,
    TaskRecording,
    TaskStates,
    passes_ahead,
)
from mydyno.hosts.tracing.perf import Folded
from mydyno.servers.running.base import RunningServer

INTERVAL_S = 1 / MOST_HZ


def server(pid: int) -> RunningServer:
    return cast(RunningServer, SimpleNamespace(pid=pid))


def test_passes_are_as_wanted_and_never_more_than_fifty_a_second() -> None:
    assert [TaskProfiler(wanted).frequency_hz for wanted in (19, 50, 499)] == [19, MOST_HZ, MOST_HZ]


@pytest.mark.parametrize(
    ("ended_s", "took_s", "passes"),
    [(10.0005, 0.0005, 1), (10.002, 0.002, 1), (10.005, 0.005, 3), (10.065, 0.001, 4)],
    ids=["quick", "a tenth", "long passes are made less often", "late passes are left out"],
)
def test_the_next_pass(ended_s: float, took_s: float, passes: int) -> None:
    assert passes_ahead(10.0, ended_s, took_s, INTERVAL_S) == passes


async def test_a_burning_process_is_recorded_until_the_end() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as burning:
        try:
            recording = TaskProfiler().start([server(burning.pid)])
            await recording.begin()
            while recording.folded.samples < 20:
                await asyncio.sleep(INTERVAL_S)
            found = await recording.end()
        finally:
            burning.kill()
    assert found.samples >= 20
    assert THREAD not in {thread.name for thread in threading.enumerate()}, "it samples no more"
    assert {stack[-1] for stack in found.stacks} & {USER_CODE}


async def test_a_process_that_is_gone_is_an_error() -> None:
    with pytest.raises(HostError, match="the threads of process 0 cannot be read"):
        await TaskProfiler().start([server(0)]).begin()


async def test_a_sampler_that_fails_has_no_profile() -> None:
    class Broken(TaskStates):
        def count_into(self, folded: Folded) -> int:
            raise ValueError("what is this")

    recording = TaskRecording(Broken([os.getpid()]), 0.02)
    await recording.begin()
    with pytest.raises(HostError, match="failed: ValueError"):
        await recording.end()
