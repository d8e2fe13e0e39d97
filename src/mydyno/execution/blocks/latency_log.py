"""latency.hlog: the latency histograms of a run's steps as one HdrHistogram log, tagged with the step's id.

Format version 1.3 with V2 compressed histograms; values are nanoseconds. Any HdrHistogram log tool reads it. A driver
that writes such a log itself (dynoload: per second and per statement) is taken over line by line, with times moved to
the run's begin; of any other driver there is one histogram a step, of the measured window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mydyno.files.atomic import write_text
from mydyno.model.stored.records import DriverResult, StepRecord

HIGHEST_NS = 3_600_000_000_000
SIGNIFICANT_DIGITS = 3


def write_latency_log(
    path: Path, run_started_unix_ns: int, steps: Sequence[StepRecord], own_logs: Mapping[str, Sequence[str]]
) -> None:
    """Write the log; `own_logs` maps a step to its driver's interval lines. A step without histograms has no line."""
    started_s = run_started_unix_ns / 1e9
    lines = [
        "#[mydyno: transaction latency in nanoseconds]",
        "#[Histogram log format version 1.3]",
        f"#[BaseTime: {started_s:.3f} (seconds since epoch)]",
        f"#[StartTime: {started_s:.3f} (seconds since epoch)]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    for step in steps:
        measure_begin_s = (step.started_unix_ns - run_started_unix_ns) / 1e9 + step.warmup_s
        if own_logs.get(step.id):
            lines += [_moved(line, measure_begin_s) for line in own_logs[step.id]]
        else:
            parts = [(f"{step.id}.instance-{part.instance}", part.driver) for part in step.instances]
            for tag, driver in parts or [(step.id, step.driver)]:
                if driver.latency_histogram_us:
                    lines.append(_whole_window(tag, driver, step.measure_s, measure_begin_s))
    write_text(path, "\n".join(lines) + "\n")


def _whole_window(tag: str, driver: DriverResult, measure_s: float, begin_s: float) -> str:
    from hdrh.histogram import HdrHistogram

    histogram = HdrHistogram(1000, HIGHEST_NS, SIGNIFICANT_DIGITS)
    for bound_us, count in driver.latency_histogram_us:
        histogram.record_value(min(max(round(bound_us * 1000), 1000), HIGHEST_NS), count)
    highest, payload = histogram.get_max_value(), histogram.encode().decode()
    return f"Tag={tag},{begin_s:.3f},{measure_s:.3f},{highest:.3f},{payload}"


def _moved(line: str, by_s: float) -> str:
    """The line with its start moved from the driver's zero (the measured window's begin) to the run's."""
    tag, start, rest = line.split(",", 2)
    return f"{tag},{float(start) + by_s:.3f},{rest}"
