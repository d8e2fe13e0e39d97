"""A noisy host made on a quiet one: work that takes the CPUs away as a hypervisor does, for a while.

Each CPU has a process of its own, which runs before the study's programs (SCHED_RR) and takes the CPU in bursts of some
ten milliseconds. Which share it takes changes every few seconds to a minute, independently for each CPU, between none
and twice the mean. What differs from real steal: the host counts it as CPU time of other programs.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from support.programs import BenchError

PERIOD_S = 0.02
EPISODE_S = 15.0
"""Mean duration of a share."""
MOST = 0.95
"""The kernel leaves ordinary programs 5 % (sched_rt_runtime_us)."""
PR_SET_PDEATHSIG = 1
START_S = 0.5
"""Within it a process that cannot make noise has ended."""


@contextmanager
def noisy_host(mean: float, most_s: float, seed: int = 1) -> Iterator[None]:
    """Within it programs of this host miss on average this share of the CPU time; nothing where it is 0.

    The processes end with the context, with this process, and after `most_s` seconds. Raises BenchError for a share
    outside 0 to 0.9, where the kernel does not allow SCHED_RR, and where one of the processes has ended before.
    """
    if not 0.0 <= mean <= 0.9:
        raise BenchError(f"the share {mean:g} of CPU time is outside 0 to 0.9")
    processes: list[subprocess.Popen[bytes]] = []
    try:
        if mean > 0.0:
            _check_priority()
        for cpu in sorted(os.sched_getaffinity(0)) if mean > 0.0 else []:
            command = [
                sys.executable,
                str(Path(__file__)),
                str(cpu),
                str(mean),
                str(most_s),
                str(seed),
                str(os.getpid()),
            ]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            processes.append(subprocess.Popen(command, env=environment))
        _check_running(processes)
        yield
        _check_running(processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _check_priority() -> None:
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    except PermissionError as error:
        raise BenchError("a noisy host needs root, or CAP_SYS_NICE, for SCHED_RR") from error


def _check_running(processes: list[subprocess.Popen[bytes]]) -> None:
    if processes:
        time.sleep(START_S)
    if any(process.poll() is not None for process in processes):
        raise BenchError("a process that takes CPU time away has ended: this host was quieter than --noise says")


def shares(mean: float, random: Random) -> Iterator[tuple[float, float]]:
    """(duration in s, share of the CPU that is taken) of one episode after the other.

    Shares are spread evenly between 0 and twice the mean; above one half of the CPU, between what is left and all.
    """
    low = max(0.0, 2.0 * mean - MOST)
    high = 2.0 * mean - low
    while True:
        yield -EPISODE_S * math.log(1.0 - random.random()), random.uniform(low, high)


def take(cpu: int, mean: float, most_s: float, seed: int, parent: int) -> None:
    """Take this CPU away in bursts, until the time is over or the parent has ended."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    ends_s = time.monotonic() + most_s
    for length_s, share in shares(mean, Random(f"noisy-host-1-{seed}-{cpu}")):
        until_s = min(ends_s, time.monotonic() + length_s)
        while (now_s := time.monotonic()) < until_s:
            while time.monotonic() < now_s + share * PERIOD_S:
                pass
            time.sleep((1.0 - share) * PERIOD_S)
        if until_s >= ends_s:
            return


if __name__ == "__main__":
    take(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
