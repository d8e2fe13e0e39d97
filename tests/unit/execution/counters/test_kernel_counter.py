"""What the kernel counts for a server's process, read from a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mydyno.execution.interleaved.slices import LaneReadings, PartOfSlice, inter_processor_interrupts, kernel_growth
from mydyno.model.stored.records import KERNEL_COUNTERS
from mydyno.servers.running.base import RunningServer

WORK = """
import mmap, sys, time
sys.stdin.readline()
area = mmap.mmap(-1, 400 * mmap.PAGESIZE)
for page in range(400):
    area[page * mmap.PAGESIZE] = 1
with open(sys.argv[1], "wb") as file:
    for _ in range(50):
        file.write(b"x" * 8192)
        file.flush()
time.sleep(0.01)
print("done", flush=True)
sys.stdin.readline()
"""


def readings_of(pid: int, process: Any) -> LaneReadings:
    settings = SimpleNamespace(interface=None)
    return LaneReadings.read(cast(RunningServer, SimpleNamespace(pid=pid, process=process, settings=settings)))


def test_the_work_of_a_process_is_in_its_counters(tmp_path: Any) -> None:
    command = [sys.executable, "-c", WORK, str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        before = readings_of(process.pid, process)
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n"
        after = readings_of(process.pid, process)
        process.stdin.write("end\n")
        process.stdin.flush()
    assert set(after.kernel) <= set(KERNEL_COUNTERS)
    grown = {name: after.kernel[name] - before.kernel[name] for name in after.kernel}
    assert grown["minor_page_faults"] >= 400
    assert grown["voluntary_context_switches"] >= 1, "it slept"
    if os.access(f"/proc/{os.getpid()}/io", os.R_OK):
        assert grown["write_calls"] >= 50


def test_a_server_that_has_ended_has_no_counters() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert readings_of(process.pid, process).kernel == {}
    assert readings_of(0, None).kernel == {}


INTERRUPTS = {
    "x86-64": """     CPU0  CPU1
  0:    36     0  IO-APIC  2-edge  timer
RES:  4266  3898  Rescheduling interrupts
CAL:    10    20  Function call interrupts
TLB:     7     7  TLB shootdowns
""",
    "arm64": """     CPU0  CPU1
IPI0:  4266  3898  Rescheduling interrupts
IPI1:    10    20  Function call interrupts
IPI2:     7     7  CPU stop interrupts
""",
}


@pytest.mark.parametrize("text", INTERRUPTS.values(), ids=INTERRUPTS)
def test_interrupts_between_cpus_are_summed_over_cpus_and_kinds(text: str) -> None:
    assert inter_processor_interrupts(text) == 8194.0
    assert inter_processor_interrupts("           CPU0\n  0:  36  IO-APIC  2-edge  timer\n") is None


def test_what_is_counted_for_the_host_is_not_summed_over_servers() -> None:
    before = LaneReadings({}, 0.0, 0.0, 0, 0, {"read_calls": 1.0, "inter_processor_interrupts": 100.0})
    after = LaneReadings({}, 0.0, 0.0, 0, 0, {"read_calls": 5.0, "inter_processor_interrupts": 160.0})
    grown = kernel_growth([PartOfSlice({}, before, after)] * 3)
    assert grown == {"read_calls": 12.0, "inter_processor_interrupts": 60.0}
