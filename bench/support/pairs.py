"""What the benchmarks share: programs run alternately in pairs, medians of their ratios, a table with targets."""

from __future__ import annotations

import os
import resource
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

REPOSITORY = Path(__file__).parents[2]
Measure = TypeVar("Measure")


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

    @property
    def holds(self) -> bool:
        """Whether the target is met."""
        return self.value <= self.target if self.better == "lower" else self.value >= self.target

    def record(self) -> dict[str, Any]:
        """The line for JSON."""
        return {**asdict(self), "holds": self.holds}


def execute(command: list[str], cwd: Path | None = None) -> tuple[str, resource.struct_rusage, float]:
    """Run a command to its end; its output, its own resource usage, and how long it took."""
    start = time.monotonic()
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    output = process.stdout.read()
    messages = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 4):
        raise SystemExit(f"{shlex.join(command)} ended with {process.returncode}:\n{output}{messages}")
    return output, usage, time.monotonic() - start


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


def version_of(command: list[str]) -> str:
    """The first line of a program's version."""
    output = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return (output.stdout or output.stderr).strip().splitlines()[0]


def show(lines: list[Line]) -> None:
    """The table for a person."""
    width = max(len(line.name) for line in lines)
    for line in lines:
        value = f"{line.value / 1e6:.1f} MB" if line.unit == "bytes" else f"{line.value:.2f}"
        target = f"{line.target / 1e6:.0f} MB" if line.unit == "bytes" else f"{line.target:.2f}"
        sign = "<=" if line.better == "lower" else ">="
        verdict = "holds" if line.holds else "MISSED"
        print(f"{line.name:<{width}}  {line.figure:<38} {value:>10}  {sign} {target:<8} {verdict}")
