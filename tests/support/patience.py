"""How long a test waits: by the CPU time that this host could have given it, not by the clock.

A wait in a test is a bound against a hang and judges nothing, so a busy host must not shorten it. `Patience(30)` is
used up when the host has had 30 seconds to give:

    given = (time that the hypervisor did not take, a CPU) × (1 − share of time in which runnable tasks waited / 2)

summed between readings, from /proc/stat (every column but steal) and /proc/pressure/cpu (`some`, total). On an idle
host a second of the clock counts whole; where tasks wait all the time, half; at 60 % steal, 0.4 or less. Where these
files are missing the host is taken for idle. Every wait ends after `MOST` times its bound by the clock.
"""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import AnyStr

HANG_S = 600.0
"""By the clock, for what either ends soon or never; far longer than anything takes on the busiest host."""
MOST = 10
STEAL = 7
"""Column of /proc/stat (proc(5))."""
COUNTED = 8
"""Columns after it are parts of the first two."""


@dataclass(frozen=True)
class Reading:
    """What the host's counters show; seconds since the host started."""

    clock_s: float
    not_stolen_s: float
    """A CPU: the mean of all."""
    waited_s: float
    """In which at least one runnable task waited for a CPU."""

    @classmethod
    def of_host(cls, proc: Path = Path("/proc")) -> Reading:
        """The counters now; without them, as on a host where nothing is stolen and nobody waits."""
        clock_s = time.monotonic()
        return cls(clock_s, _not_stolen_s(proc / "stat", clock_s), _waited_s(proc / "pressure" / "cpu"))


class Patience:
    """A bound that is used up by the time that the host could give."""

    def __init__(self, cpu_s: float, read: Callable[[], Reading] = Reading.of_host) -> None:
        self.cpu_s = cpu_s
        self._read = read
        self._begun = self._last = read()
        self._given_s = 0.0

    def left_s(self) -> float:
        """Seconds left; 0 where the bound is used up. Call it often: between calls the pressure is taken as even."""
        now, last = self._read(), self._last
        self._last = now
        passed_s = now.clock_s - last.clock_s
        if passed_s > 0:
            share = min(1.0, max(0.0, (now.waited_s - last.waited_s) / passed_s))
            self._given_s += min(passed_s, max(0.0, now.not_stolen_s - last.not_stolen_s)) * (1 - share / 2)
        if now.clock_s - self._begun.clock_s >= MOST * self.cpu_s:
            return 0.0
        return max(0.0, self.cpu_s - self._given_s)

    @property
    def expired(self) -> bool:
        """Whether it is used up."""
        return self.left_s() == 0

    def __str__(self) -> str:
        """For messages: by both clocks."""
        return f"{self._last.clock_s - self._begun.clock_s:.0f} s ({self._given_s:.0f} s of a whole CPU)"


def wait_until(condition: Callable[[], bool], cpu_s: float = 30, pause_s: float = 0.02) -> bool:
    """Poll until the condition holds; gives whether it did."""
    patience = Patience(cpu_s)
    while not patience.expired:
        before_s = time.thread_time()
        if condition():
            return True
        pause(before_s, pause_s)
    return condition()


async def until(condition: Callable[[], bool], cpu_s: float = 30) -> None:
    """Wait in a coroutine until the condition holds. Raises AssertionError where patience ends first."""
    patience = Patience(cpu_s)
    while not condition():
        assert not patience.expired, f"did not happen within {patience}"
        await asyncio.sleep(0.01)


def pause(before_s: float, least_s: float) -> None:
    """Between two looks, `before_s` being the CPU time of this thread before the last one: who waits must not use the
    CPU of what it waits for."""
    time.sleep(max(least_s, 2 * (time.thread_time() - before_s)))


def ended(process: subprocess.Popen[bytes] | subprocess.Popen[str], what: str, timeout_s: float = HANG_S) -> int:
    """The exit code of a process that is about to end. Where it does not, kills it and raises AssertionError."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise AssertionError(f"{what} did not end within {timeout_s:.0f} s and was killed") from None


def first_line(process: subprocess.Popen[AnyStr], what: str, expected: AnyStr | None = None) -> AnyStr:
    """The next line that the process prints. Where none comes, kills it and raises AssertionError.

    To be used where it prints one line at a time: what follows in the same write is in the stream's buffer.
    """
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], HANG_S)
    if not ready:
        process.kill()
        raise AssertionError(f"{what} printed nothing for {HANG_S:.0f} s and was killed")
    line = process.stdout.readline()
    assert expected in (None, line), f"{what} printed {line!r}"
    return line


def _not_stolen_s(stat: Path, clock_s: float) -> float:
    try:
        ticks = [int(word) for word in stat.read_text().splitlines()[0].split()[1:]]
    except (OSError, ValueError, IndexError):
        return clock_s
    given = sum(ticks[:COUNTED]) - (ticks[STEAL] if len(ticks) > STEAL else 0)
    return given / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)


def _waited_s(pressure: Path) -> float:
    try:
        some = pressure.read_text().splitlines()[0]
        return int(some.rpartition("total=")[2]) / 1e6
    except (OSError, ValueError, IndexError):
        return 0.0
