"""The host's CPU time from /proc/stat, and a process's own CPU clock."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mydyno.hosts.quiet import HostCpu, process_cpu_s

STAT = """cpu  1000 200 300 4000 50 6 14 430 70 0
cpu0 500 100 150 2000 25 3 7 215 35 0
cpu1 500 100 150 2000 25 3 7 215 35 0
intr 1 2 3
ctxt 5
"""


def test_each_class_of_proc_stat_is_read_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_text(STAT)
    per_s = os.sysconf("SC_CLK_TCK")
    read = HostCpu.read(path)
    assert (read.user_s, read.system_s, read.irq_s) == (1200 / per_s, 300 / per_s, 20 / per_s)
    assert (read.idle_s, read.iowait_s, read.steal_s) == (4000 / per_s, 50 / per_s, 430 / per_s)
    assert read.cpus == 2
    assert read.busy_s == pytest.approx(1520 / per_s)
    assert read.total_s == pytest.approx(6000 / per_s)  # guest time (70) is in user already


def test_a_kernel_without_steal_reads_zero_steal(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_text("cpu  10 0 5 100\ncpu0 10 0 5 100\n")
    assert (HostCpu.read(path).steal_s, HostCpu.read(path).iowait_s) == (0.0, 0.0)


def test_a_file_without_the_line_of_all_cpus_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_text("intr 1\n")
    with pytest.raises(ValueError, match="no line cpu"):
        HostCpu.read(path)


def test_a_difference_never_goes_backwards() -> None:
    before = HostCpu(user_s=10, system_s=5, irq_s=1, idle_s=100, iowait_s=4, steal_s=2, cpus=2)
    after = HostCpu(user_s=13, system_s=6, irq_s=1, idle_s=103, iowait_s=3.5, steal_s=5, cpus=2)
    grown = after.since(before)
    assert (grown.user_s, grown.system_s, grown.irq_s, grown.idle_s, grown.iowait_s) == (3, 1, 0, 3, 0)
    assert grown.steal_s == 3


def test_the_real_counters_grow_by_the_cpu_time_that_passed() -> None:
    before, began = HostCpu.read(), time.monotonic()
    used_s = time.process_time()
    while time.process_time() < used_s + 0.2:
        pass
    grown, took_s = HostCpu.read().since(before), time.monotonic() - began
    assert grown.busy_s > 0.1, "what this process used, less the ticks on either side"
    assert grown.cpus == os.sysconf("SC_NPROCESSORS_ONLN")
    # Ticks are counted late on an idle CPU and in full for a stolen one: a bound of four times tells s from ticks.
    assert took_s * grown.cpus / 4 < grown.total_s < took_s * grown.cpus * 4 + 0.2


def test_the_cpu_clock_of_another_process_is_its_own_cpu_time() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "import time\nfor _ in range(2): print(time.process_time(), flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        before = float(child.stdout.readline())
        used = process_cpu_s(child.pid)
        child.stdin.write(b"\n")
        child.stdin.flush()
        after = float(child.stdout.readline())
        assert used is not None and 0 < before <= used <= after
        child.stdin.write(b"\n")
    assert process_cpu_s(child.pid) is None


def test_the_own_cpu_clock_agrees_with_the_interpreter() -> None:
    before = time.process_time()
    mine = process_cpu_s(os.getpid())
    after = time.process_time()
    assert mine is not None and before <= mine <= after
