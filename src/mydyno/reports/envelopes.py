"""Telemetry reduced for a page: per arm, step and metric the median over the arm's runs, and the range of all of them.

Time is cut into buckets of whole seconds, at most 600 a step. A run gives one mean, least and greatest value a bucket;
an arm gives the median of its runs' means, the least and the greatest. Which runs count at
which step is the caller's choice. A metric that no run has is absent.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mydyno.model.stored.summary import RunSummary
from mydyno.store.samples import file_names, reading

MAX_BUCKETS = 600
SESSION = "session"
"""The step id under which a whole run is reduced."""

Series = tuple[str, str]
"""(scope, metric)."""
Files = Mapping[str, Mapping[Path, RunSummary]]
"""Per step the samples.parquet files to read, and whose they are."""
Group = tuple[str, int]
"""(arm, copy)."""


@dataclass(slots=True)
class Envelope:
    """One line with its band: bucket i ends `(i + 1) * width_s` after the start; NaN where no run has a sample."""

    width_s: float
    middle: list[float]
    low: list[float]
    high: list[float]
    runs: int = 0
    """The most runs that any bucket rests on."""

    def seconds(self) -> list[float]:
        """The end of every bucket."""
        return [(index + 1) * self.width_s for index in range(len(self.middle))]


Panel = dict[Group, Envelope]
PanelKey = tuple[str, str, str]
"""(step, scope, metric)."""


def bucket_width_s(duration_s: float, buckets: int = MAX_BUCKETS) -> float:
    """The least whole number of seconds that cuts a duration into at most so many buckets."""
    return float(max(1, math.ceil(duration_s / max(1, min(buckets, MAX_BUCKETS)))))


def list_series(files: Sequence[Path]) -> dict[Series, float]:
    """Every (scope, metric) with samples inside a step, and its greatest absolute value."""
    if not files:
        return {}
    query = """
        select scope, metric, max(abs(value)) from read_parquet(?)
        where step is not null and isfinite(value) group by all order by all"""
    with reading(*files) as connection:
        rows = connection.execute(query, [file_names(*files)]).fetchall()
    return {(scope, metric): float(largest) for scope, metric, largest in rows}


def read_panels(
    files: Files, series: Collection[Series], widths_s: Mapping[str, float], durations_s: Mapping[str, float]
) -> dict[PanelKey, Panel]:
    """These series of every step, from the samples of the runs chosen for it; `widths_s` is the buckets' per step."""
    if not any(files.values()) or not series or not widths_s:
        return {}
    names = {"series": [f"{scope} {metric}" for scope, metric in series]}
    return _collect(_query(files, _STEP_SAMPLES, widths_s, names), widths_s, durations_s)


def read_session(runs: Mapping[Path, RunSummary], series: Series, width_s: float, duration_s: float) -> Panel:
    """One series over whole runs, from each run's beginning. Empty if no run has it."""
    widths = {SESSION: width_s}
    rows = _query({SESSION: runs}, _SESSION_SAMPLES, widths, {"scope": series[0], "metric": series[1]})
    return _collect(rows, widths, {SESSION: duration_s}).get((SESSION, *series), {})


def session_duration_s(files: Mapping[Path, RunSummary]) -> float:
    """The longest time from a run's beginning to its last sample; 0 without files."""
    if not files:
        return 0.0
    with reading(*files) as connection:
        row = connection.execute("select max(t_s) from read_parquet(?)", [file_names(*files)]).fetchone()
    return float(row[0]) if row and row[0] is not None else 0.0


_STEP_SAMPLES = """
    select filename, step, step_t_s as time_s, scope, metric, value
    from read_parquet($distinct_names, filename = true)
    where step is not null and list_contains($series, concat(scope, ' ', metric))"""
_SESSION_SAMPLES = """
    select filename, 'session' as step, t_s as time_s, scope, metric, value
    from read_parquet($distinct_names, filename = true)
    where scope = $scope and metric = $metric"""
_ENVELOPES = """
    with samples as ({samples}),
    files as (
        select unnest($names) as filename, unnest($of_steps) as step, unnest($arms) as arm, unnest($copies) as copy),
    widths as (select unnest($steps) as step, unnest($widths) as width),
    buckets as (
        select step, scope, metric, filename, arm, copy,
               greatest(0, cast(round(time_s / width) as integer) - 1) as bucket,
               avg(value) as value, min(value) as low, max(value) as high
        from samples join files using (filename, step) join widths using (step)
        where time_s > 0 and isfinite(value)
        group by all)
    select step, scope, metric, arm, copy, bucket, median(value), min(low), max(high), count(distinct filename)
    from buckets group by step, scope, metric, arm, copy, bucket
    order by step, scope, metric, arm, copy, bucket"""


def _query(files: Files, samples: str, widths_s: Mapping[str, float], only: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Rows (step, scope, metric, arm, copy, bucket, middle, low, high, runs), ordered."""
    chosen = [(path, step, run) for step, of_step in files.items() for path, run in of_step.items()]
    parameters: dict[str, Any] = {
        "names": [str(path) for path, _, _ in chosen],
        "of_steps": [step for _, step, _ in chosen],
        "arms": [run.arm for _, _, run in chosen],
        "copies": [run.copy_number for _, _, run in chosen],
        "distinct_names": file_names(*dict.fromkeys(path for path, _, _ in chosen)),
        "steps": list(widths_s),
        "widths": list(widths_s.values()),
        **only,
    }
    with reading(*(path for of_step in files.values() for path in of_step)) as connection:
        return connection.execute(_ENVELOPES.format(samples=samples), parameters).fetchall()


def _collect(
    rows: Sequence[tuple[Any, ...]], widths_s: Mapping[str, float], durations_s: Mapping[str, float]
) -> dict[PanelKey, Panel]:
    """Put rows into lines of equal length per step."""
    panels: dict[PanelKey, Panel] = {}
    for step, scope, metric, arm, copy, bucket, middle, least, greatest, runs in rows:
        panel = panels.setdefault((step, scope, metric), {})
        if (arm, copy) not in panel:
            size = max(1, math.ceil(durations_s[step] / widths_s[step]))
            low, high = [math.nan] * size, [math.nan] * size
            panel[arm, copy] = Envelope(widths_s[step], [math.nan] * size, low, high)
        envelope = panel[arm, copy]
        envelope.runs = max(envelope.runs, runs)
        if bucket < len(envelope.middle):
            envelope.middle[bucket] = float(middle)
            envelope.low[bucket] = float(least)
            envelope.high[bucket] = float(greatest)
    return panels
