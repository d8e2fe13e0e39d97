"""memaslap's output (libmemcached 1.0 and 1.1), read into numbers. Pure functions on text.

It prints, each second, a block of statistics for gets, sets and both, with escape codes that clear the screen before
it; at the end the whole run's counts and its distribution over powers of two of microseconds. It has no warm-up: what
is measured is the sum of the seconds after it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_HEAD = re.compile(r"(Get|Set|Total) Statistics\b")
_PERIOD = re.compile(r"^Period\s+\d+((?:\s+[\d.]+){9})", re.M)
_GLOBAL = re.compile(r"^Global\s+(\d+)", re.M)
_COUNT = re.compile(r"^(cmd_get|cmd_set|get_misses|written_bytes|read_bytes|object_bytes): (\d+)", re.M)
_SPREAD = re.compile(r"^\s+(Min|Max|Avg|Geo|Std):\s+([\d.]+)", re.M)
_LOG2 = re.compile(r"^\s+(\d+):((?:\s+\d+){1,4})\s*$", re.M)
_ENDED = re.compile(r"^Run time: ([\d.]+)s Ops: (\d+) TPS: (\d+)", re.M)
SPREAD_NAMES = {"Min": "min_us", "Max": "max_us", "Avg": "mean_us", "Geo": "geometric_mean_us", "Std": "std_us"}


@dataclass(frozen=True)
class Second:
    """One second's operations of one kind."""

    t_s: int
    ops: int
    get_misses: int
    min_us: float
    max_us: float
    mean_us: float


@dataclass(frozen=True)
class Report:
    """Everything that one run printed."""

    seconds: dict[str, tuple[Second, ...]]
    """Get, Set and Total → each second."""
    counts: dict[str, int]
    """Counts over the whole run: cmd_get, cmd_set, get_misses, written_bytes, read_bytes, object_bytes."""
    spread_us: dict[str, float]
    """Latency of all operations of the whole run: min_us, max_us, mean_us, std_us, geometric_mean_us."""
    log2_us: tuple[tuple[float, int], ...]
    """(upper bound in µs, count) of all operations of the whole run."""
    run_s: float


def parse(text: str) -> Report | None:
    """The report; None if the run did not end normally."""
    ended = _ENDED.search(text)
    counts = {name: int(value) for name, value in _COUNT.findall(text)}
    if ended is None or not {"cmd_get", "cmd_set", "get_misses"} <= counts.keys():
        return None
    seconds: dict[str, list[Second]] = {"Get": [], "Set": [], "Total": []}
    heads = list(_HEAD.finditer(text))
    last = ""
    for head, end in zip(heads, [*(one.start() for one in heads[1:]), len(text)], strict=True):
        block = text[head.end() : end]
        period, whole = _PERIOD.search(block), _GLOBAL.search(block)
        if period is not None and whole is not None:
            seconds[head[1]].append(_second(int(whole[1]), period[1].split()))
        elif head[1] == "Total":
            last = block
    return Report(
        seconds={name: tuple(found) for name, found in seconds.items()},
        counts=counts,
        spread_us={SPREAD_NAMES[name]: float(value) for name, value in _SPREAD.findall(last)},
        log2_us=tuple(_log2(last)),
        run_s=float(ended[1]),
    )


def _second(t_s: int, columns: Sequence[str]) -> Second:
    ops, _, _, misses, least, most, mean = columns[:7]
    return Second(t_s, int(ops), int(misses), float(least), float(most), float(mean))


def _log2(block: str) -> list[tuple[float, int]]:
    """Rows of four counts; the row's number is the first one's length in bits: 4 is 8 to 15 µs."""
    found = []
    for first, counts in _LOG2.findall(block):
        for offset, count in enumerate(counts.split()):
            found.append((float(1 << (int(first) + offset)), int(count)))
    return found
