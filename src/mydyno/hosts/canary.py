"""The present speed of this host: CPUs, memory, small synchronous writes, TCP over loopback.

A canary is read while nothing of the study runs. Readings are compared with each other only; they do not describe a
server. Cost: two seconds of all CPUs.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from dataclasses import dataclass
from math import nan
from pathlib import Path

from mydyno.errors import HostError
from mydyno.files.private import new_file
from mydyno.hosts.limits import usable_memory, whole_cpus
from mydyno.hosts.memory_bandwidth import run_dynomem
from mydyno.hosts.network.transfer import timed_transfer
from mydyno.hosts.root import HERE


@dataclass(frozen=True)
class Reading:
    """One reading of a canary."""

    label: str
    method: str

    @property
    def text(self) -> str:
        """Label and method."""
        return f"{self.label}: {self.method}"


READINGS = {
    "cpu_bytes_per_s": Reading("CPUs", "SHA-256 on all of them"),
    "memory_bytes_per_s": Reading("memory", "triad on all CPUs"),
    "fsyncs_per_s": Reading("disk", "4 KB written and synced"),
    "loopback_bits_per_s": Reading("loopback", "one TCP stream"),
}
"""The quantity of each reading; more is faster."""
PART_S = 0.5
_HASHED = bytes(1 << 20)
_WRITTEN = bytes(4096)
_ARRAY_BYTES = 64 << 20


def read_canary(dynomem: Path, folder: Path) -> dict[str, float]:
    """One reading of each kind; NaN if it failed. `folder` is where the study's data lie."""
    return {
        "cpu_bytes_per_s": _cpus(),
        "memory_bytes_per_s": _memory(dynomem),
        "fsyncs_per_s": synced_writes_per_s(folder),
        "loopback_bits_per_s": _loopback(),
    }


def _used_cpus() -> list[int]:
    """As many CPUs as a quota, if there is one, can keep busy."""
    return sorted(HERE.cpus)[: whole_cpus()]


def _cpus() -> float:
    """All threads together; hashlib releases the interpreter's lock meanwhile."""
    done = []

    def work(cpu: int) -> None:
        os.sched_setaffinity(0, {cpu})  # of this thread alone
        count, end = 0, time.monotonic() + PART_S
        digest = hashlib.sha256()
        while time.monotonic() < end:
            digest.update(_HASHED)
            count += 1
        done.append(count)

    threads = [threading.Thread(target=work, args=(cpu,)) for cpu in _used_cpus()]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) * len(_HASHED) / (time.monotonic() - began)


def _memory(dynomem: Path) -> float:
    cpus = _used_cpus()
    array_bytes = min(_ARRAY_BYTES, int(usable_memory().amount) // 16)  # three of them
    try:
        return run_dynomem(dynomem, "all CPUs", cpus, cpus, array_bytes, repeats=4).median_bytes_per_s["triad"]
    except (HostError, OSError):
        return nan


def synced_writes_per_s(folder: Path) -> float:
    """Writes of 4 KB to the folder's disk, each with fdatasync(2), one after the other for PART_S; NaN if it failed."""
    path = folder / f".canary-{os.getpid()}"
    try:
        descriptor = new_file(path)
        try:
            count, began = 0, time.monotonic()
            while time.monotonic() - began < PART_S:
                os.pwrite(descriptor, _WRITTEN, 0)
                os.fdatasync(descriptor)
                count += 1
            return count / (time.monotonic() - began)
        finally:
            os.close(descriptor)
            path.unlink()
    except (HostError, OSError):
        return nan


def _loopback() -> float:
    try:
        return timed_transfer(None, None, "127.0.0.1", PART_S).bits_per_s
    except OSError:
        return nan
