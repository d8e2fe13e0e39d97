"""What the benchmarks share: programs run alternately in pairs, medians of their ratios, a table with targets."""

from __future__ import annotations

import os
import re
import shlex
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

REPOSITORY = Path(__file__).parents[2]
Measure = TypeVar("Measure")
WATCH_S = 0.05


@dataclass
class Line:
    """One line of the result: a ratio (or a figure) with its target."""

    name: str
    figure: str
    value: float
    target: float
    better: str
    unit: str = "ratio"
    runs: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Told as soon as it is measured: a go that ends early has lost nothing."""
        say(f"  {self}")

    def __str__(self) -> str:
        """The line for a person."""
        value = f"{self.value / 1e6:.1f} MB" if self.unit == "bytes" else f"{self.value:.2f}"
        target = f"{self.target / 1e6:.0f} MB" if self.unit == "bytes" else f"{self.target:.2f}"
        sign = "<=" if self.better == "lower" else ">="
        return f"{self.figure:<38} {value:>10}  {sign} {target:<8} {'holds' if self.holds else 'MISSED'}"

    @property
    def holds(self) -> bool:
        """Whether the target is met."""
        return self.value <= self.target if self.better == "lower" else self.value >= self.target

    def record(self) -> dict[str, Any]:
        """The line for JSON."""
        return {**asdict(self), "holds": self.holds}


@dataclass(frozen=True)
class Usage:
    """What a process used."""

    cpu_s: float
    peak_rss_bytes: float


def execute(command: list[str], cwd: Path | None = None) -> tuple[str, Usage, float]:
    """Run a command to its end; its output, its own resource usage, and how long it took.

    Memory is VmHWM of /proc/PID/status, read while it runs: wait4's ru_maxrss begins with what this program had when
    it forked, which hides every smaller one.
    """
    start = time.monotonic()
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    ended = threading.Event()
    peaks = [0.0]
    watcher = threading.Thread(target=_watch_memory, args=(process.pid, ended, peaks))
    watcher.start()
    output = process.stdout.read()
    messages = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    ended.set()
    watcher.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 4):
        raise SystemExit(f"{shlex.join(command)} ended with {process.returncode}:\n{output}{messages}")
    used = Usage(usage.ru_utime + usage.ru_stime, peaks[0])
    return output, used, time.monotonic() - start


def _watch_memory(pid: int, ended: threading.Event, peaks: list[float]) -> None:
    """Keeps the last reading of the peak, which only rises, until the process is gone."""
    me = Path("/proc/self/exe").readlink()
    while not ended.wait(WATCH_S):
        try:
            text = Path(f"/proc/{pid}/status").read_text()
            executed = Path(f"/proc/{pid}/exe").readlink() != me
        except OSError:
            continue
        found = re.search(r"VmHWM:\s+(\d+) kB", text)
        if found and executed:
            peaks[0] = float(found[1]) * 1024


def paired(pairs: int, ours: Callable[[], Measure], theirs: Callable[[], Measure]) -> list[tuple[Measure, Measure]]:
    """Both programs alternately, the first of a pair changing."""
    result = []
    for pair in range(pairs):
        if pair % 2 == 0:
            mine = ours()
            other = theirs()
        else:
            other = theirs()
            mine = ours()
        result.append((mine, other))
    return result


def ratio(pairs: list[tuple[Any, Any]], figure: str) -> float:
    """Median of the pairs' ratios, ours to theirs."""
    return float(statistics.median(getattr(mine, figure) / getattr(other, figure) for mine, other in pairs))


def runs_of(pairs: list[tuple[Any, Any]]) -> list[dict[str, float]]:
    """The raw figures of every pair; each measure is a dataclass."""
    return [
        {
            f"{side}_{key}": value
            for side, measure in (("ours", mine), ("theirs", other))
            for key, value in asdict(measure).items()
        }
        for mine, other in pairs
    ]


def say(text: str) -> None:
    """Progress for a person."""
    print(text, file=sys.stderr, flush=True)


def measure(parts: dict[str, Callable[[], list[Line]]], only: list[str] | None) -> tuple[list[Line], list[str]]:
    """The lines of every part asked for, and the parts that failed: one that fails does not cost the others."""
    lines: list[Line] = []
    failed = []
    for name, part in parts.items():
        if only and name not in only:
            continue
        try:
            lines += part()
        except (SystemExit, OSError) as error:
            say(f"{name} failed: {error}")
            failed.append(name)
    return lines, failed


def version_of(command: list[str]) -> str:
    """The first line of a program's version."""
    output = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return (output.stdout or output.stderr).strip().splitlines()[0]


def show(lines: list[Line]) -> None:
    """The table for a person."""
    width = max(len(line.name) for line in lines)
    for line in lines:
        print(f"{line.name:<{width}}  {line}")
