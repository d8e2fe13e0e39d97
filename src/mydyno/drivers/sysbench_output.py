"""sysbench 1.0.x's output, read into numbers. Pure functions on text.

Measured: per second and per window counts by sysbench itself; latency from its own histogram (its buckets are about
1.7 % wide). Wrong when: sysbench is starved of CPU, for latency then contains its own wait; and with --rate, where the
time in its queue is added.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_INTERVAL = re.compile(
    r"^\[ (?P<t>\d+)s \] thds: (?P<threads>\d+) tps: (?P<tps>[\d.]+) qps: (?P<qps>[\d.]+) "
    r"\(r/w/o: (?P<read>[\d.]+)/(?P<write>[\d.]+)/(?P<other>[\d.]+)\) "
    r"lat \(ms,(?P<percentile>\d+)%\): (?P<latency>[\d.]+) err/s:? (?P<errors>[\d.]+) reconn/s: (?P<reconnects>[\d.]+)"
)
_HISTOGRAM = re.compile(r"^\s+([\d.]+) \|\**\s+(\d+)\s*$")
_COUNTS = {
    "read": re.compile(r"^\s+read:\s+(\d+)", re.MULTILINE),
    "write": re.compile(r"^\s+write:\s+(\d+)", re.MULTILINE),
    "other": re.compile(r"^\s+other:\s+(\d+)", re.MULTILINE),
    "queries": re.compile(r"^\s+total:\s+(\d+)", re.MULTILINE),
    "transactions": re.compile(r"^\s+transactions:\s+(\d+)", re.MULTILINE),
    "ignored_errors": re.compile(r"^\s+ignored errors:\s+(\d+)", re.MULTILINE),
    "reconnects": re.compile(r"^\s+reconnects:\s+(\d+)", re.MULTILINE),
}
_TOTAL_TIME = re.compile(r"^\s+total time:\s+([\d.]+)s", re.MULTILINE)
_LATENCY = {
    "min": re.compile(r"^\s+min:\s+([\d.]+)", re.MULTILINE),
    "mean": re.compile(r"^\s+avg:\s+([\d.]+)", re.MULTILINE),
    "max": re.compile(r"^\s+max:\s+([\d.]+)", re.MULTILINE),
}


@dataclass(frozen=True)
class Interval:
    """One line of --report-interval."""

    t_s: int
    tps: float
    qps: float
    latency_ms: float
    percentile: int
    errors_per_s: float
    reconnects_per_s: float


@dataclass(frozen=True)
class Report:
    """One cumulative report: sysbench's counts since the last checkpoint."""

    counts: dict[str, int]
    total_time_s: float
    latency_ms: dict[str, float]


def parse_interval(line: str) -> Interval | None:
    """The interval report in a line, or None."""
    match = _INTERVAL.match(line)
    if match is None:
        return None
    return Interval(
        t_s=int(match["t"]),
        tps=float(match["tps"]),
        qps=float(match["qps"]),
        latency_ms=float(match["latency"]),
        percentile=int(match["percentile"]),
        errors_per_s=float(match["errors"]),
        reconnects_per_s=float(match["reconnects"]),
    )


def parse_reports(output: str) -> list[Report]:
    """Every cumulative report in the output: those of checkpoints, then the final one."""
    reports = []
    for text in output.split("SQL statistics:")[1:]:
        counts = {name: int(match[1]) for name, pattern in _COUNTS.items() if (match := pattern.search(text))}
        total = _TOTAL_TIME.search(text)
        if total is None or set(_COUNTS) - set(counts):
            continue
        latency = {name: float(match[1]) for name, pattern in _LATENCY.items() if (match := pattern.search(text))}
        reports.append(Report(counts, float(total[1]), latency))
    return reports


def parse_histogram(output: str) -> list[tuple[float, int]]:
    """(upper bound of the bucket in ms, count), ascending; of the window after the last checkpoint."""
    _, _, text = output.rpartition("Latency histogram")
    return [(float(match[1]), int(match[2])) for line in text.splitlines() if (match := _HISTOGRAM.match(line))]


def percentile(histogram: list[tuple[float, int]], share: float) -> float:
    """The bucket bound below which `share` of the counts lie. Raises ValueError for an empty histogram."""
    total = sum(count for _, count in histogram)
    if not total:
        raise ValueError("empty histogram")
    cumulative = 0
    for bound, count in histogram:
        cumulative += count
        if cumulative >= share * total:
            return bound
    return histogram[-1][0]


def fatal_words(output: str) -> list[str]:
    """sysbench's error messages: its FATAL and error lines, each once, the first five."""
    words = [
        line.strip()
        for line in output.splitlines()
        if line.startswith(("FATAL:", "ALERT:", "PANIC:", "Error", "error:")) or "failed:" in line
    ]
    return list(dict.fromkeys(words))[:5]
