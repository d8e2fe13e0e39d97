"""latency.hlog: each step's latency histogram as an HdrHistogram log, tagged with the step's id.

Format version 1.3 with V2 compressed histograms; values are whole microseconds. Any HdrHistogram log tool reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mydyno.model.records import StepRecord
from mydyno.store.files import write_text

HIGHEST_US = 3_600_000_000
SIGNIFICANT_DIGITS = 3


def write_latency_log(path: Path, run_started_unix_ns: int, steps: Sequence[StepRecord]) -> None:
    """Write one interval a step; a step whose driver gave no histogram has none."""
    from hdrh.histogram import HdrHistogram

    started_s = run_started_unix_ns / 1e9
    lines = [
        "#[mydyno: transaction latency in microseconds, one histogram a step]",
        "#[Histogram log format version 1.3]",
        f"#[BaseTime: {started_s:.3f} (seconds since epoch)]",
        f"#[StartTime: {started_s:.3f} (seconds since epoch)]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    for step in steps:
        if not step.driver.latency_histogram_us:
            continue
        histogram = HdrHistogram(1, HIGHEST_US, SIGNIFICANT_DIGITS)
        for bound_us, count in step.driver.latency_histogram_us:
            histogram.record_value(min(max(round(bound_us), 1), HIGHEST_US), count)
        begin_s = (step.started_unix_ns - run_started_unix_ns) / 1e9 + step.warmup_s
        payload = histogram.encode().decode()
        lines.append(f"Tag={step.id},{begin_s:.3f},{step.measure_s:.3f},{histogram.get_max_value():.3f},{payload}")
    write_text(path, "\n".join(lines) + "\n")
