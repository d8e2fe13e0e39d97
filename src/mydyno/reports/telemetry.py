"""Which telemetry a page carries, at which resolution, and its packing: base64 of little-endian Float32.

The published studies' charts (CPU user, QPS, TPS, RSS, VSIZE, and latency beside them) are always carried, whole where
they fit. What explains them follows in the order below, coarser, until the page's budget is used up; the rest stays in
samples.parquet, and the page says which.

Per arm, step and metric there are the median over the arm's runs, and the range of all of them. Time is cut into
buckets of whole seconds, at most 600 a step. A run gives one mean, least and greatest value a bucket; an arm gives the
median of its runs' means, the least and the greatest. A metric that no run has is absent.
"""

from __future__ import annotations

import base64
import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from sys import byteorder
from typing import Any

from mydyno.document.result import StudyResult
from mydyno.model.metrics import lane_name
from mydyno.model.stored.summary import RunSummary
from mydyno.store.samples import file_names, reading
from mydyno.wording.numbers import display_unit, metric_name

MAX_BUCKETS = 600

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
    return _collect(_query(files, series, widths_s), widths_s, durations_s)


_ENVELOPES = """
    with samples as (
        select filename, step, step_t_s as time_s, scope, metric, value
        from read_parquet($distinct_names, filename = true)
        where step is not null and list_contains($series, concat(scope, ' ', metric))),
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
    select step, scope, metric, arm, copy, bucket, median(value), min(low), max(high)
    from buckets group by step, scope, metric, arm, copy, bucket
    order by step, scope, metric, arm, copy, bucket"""


def _query(files: Files, series: Collection[Series], widths_s: Mapping[str, float]) -> list[tuple[Any, ...]]:
    """Rows (step, scope, metric, arm, copy, bucket, middle, low, high), ordered."""
    chosen = [(path, step, run) for step, of_step in files.items() for path, run in of_step.items()]
    parameters: dict[str, Any] = {
        "names": [str(path) for path, _, _ in chosen],
        "of_steps": [step for _, step, _ in chosen],
        "arms": [run.arm for _, _, run in chosen],
        "copies": [run.copy_number for _, _, run in chosen],
        "distinct_names": file_names(*dict.fromkeys(path for path, _, _ in chosen)),
        "steps": list(widths_s),
        "widths": list(widths_s.values()),
        "series": [f"{scope} {metric}" for scope, metric in series],
    }
    with reading(*(path for of_step in files.values() for path in of_step)) as connection:
        return connection.execute(_ENVELOPES, parameters).fetchall()


def _collect(
    rows: Sequence[tuple[Any, ...]], widths_s: Mapping[str, float], durations_s: Mapping[str, float]
) -> dict[PanelKey, Panel]:
    """Put rows into lines of equal length per step."""
    panels: dict[PanelKey, Panel] = {}
    for step, scope, metric, arm, copy, bucket, middle, least, greatest in rows:
        panel = panels.setdefault((step, scope, metric), {})
        if (arm, copy) not in panel:
            size = max(1, math.ceil(durations_s[step] / widths_s[step]))
            low, high = [math.nan] * size, [math.nan] * size
            panel[arm, copy] = Envelope(widths_s[step], [math.nan] * size, low, high)
        envelope = panel[arm, copy]
        if bucket < len(envelope.middle):
            envelope.middle[bucket] = float(middle)
            envelope.low[bucket] = float(least)
            envelope.high[bucket] = float(greatest)
    return panels


CORE = ("qps", "tps", "cpu_user_pct", "server_rss_bytes", "server_vsize_bytes", "latency_p99_us")
EXPLAINING = (
    "ops", "kv_hit_pct", "tpmc", "cpu_system_pct", "cpu_iowait_pct", "innodb_checkpoint_age_bytes",
    "innodb_dirty_pages_pct", "disk_read_bytes_per_s", "disk_write_bytes_per_s", "disk_util_pct",
    "network_rx_bytes_per_s", "network_tx_bytes_per_s", "server_cpu_user_pct", "server_cpu_system_pct", "cpu_steal_pct",
    "driver_cpu_user_pct", "innodb_buffer_pool_hit_pct", "innodb_redo_written_bytes_per_s", "innodb_data_fsyncs_per_s",
    "innodb_row_lock_waits_per_s", "threads_running", "context_switches_per_s", "server_minor_faults_per_s",
    "server_pss_bytes", "psi_cpu_some_pct", "psi_io_some_pct", "psi_memory_some_pct", "innodb_checkpoint_max_age_bytes",
    "server_voluntary_switches_per_s", "tcp_retransmits_per_s", "cgroup_throttled_pct",
)  # fmt: skip
Lines = tuple[float, list[tuple[int, list[list[float]]]]]
"""Of a panel: (width of a bucket, [(place of a group, its middle, or middle, low and high)])."""
PREFERRED_SCOPES = {"qps": "driver", "tps": "driver", "cpu_user_pct": "host", "latency": "driver", "driver": "driver"}
BYTES_PER_VALUE = 4 * 4 / 3
COARSE_BUCKETS = 40
LEAST_BUCKETS = 20
CORE_SHARE = 0.6


@dataclass(frozen=True)
class Telemetry:
    """The panels that a page carries, and what it leaves out."""

    panels: dict[PanelKey, Panel]
    series: tuple[Series, ...]
    """(scope, metric) in the order in which they are offered."""
    durations_s: dict[str, float]
    widths_s: dict[str, float]
    left_out: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    invalid: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """{step: arms} that are drawn from runs that are not valid there, because there are no others."""
    missing_files: int = 0


def preferred(pairs: Sequence[Series]) -> Series | None:
    """The series of one metric that a reader expects among several scopes: the load program's QPS, the host's CPU."""
    if not pairs:
        return None
    metric = pairs[0][1]
    wanted = PREFERRED_SCOPES.get(metric) or PREFERRED_SCOPES.get(metric.split("_", maxsplit=1)[0], "host")
    return min(pairs, key=lambda pair: (not pair[0].startswith(wanted), not pair[0].startswith("instance"), pair[0]))


def read_telemetry(result: StudyResult, budget_bytes: float) -> Telemetry:
    """Read and reduce the samples of a study's runs so that their packing stays within the budget."""
    present = result.samples
    durations = _durations(result)
    files, invalid = _choose(present, list(durations))
    found = list_series(list(present))
    constant = sorted(pair for pair, greatest in found.items() if greatest == 0 and pair[1] not in CORE)
    series = _ordered(set(found) - set(constant))
    core = [
        pair for pair in series if pair[1] in CORE and pair == preferred([one for one in series if one[1] == pair[1]])
    ]
    fine = _fine_widths(durations, len(core) * _lines(result), budget_bytes)
    coarse = {step: max(fine[step], bucket_width_s(s, COARSE_BUCKETS)) for step, s in durations.items()}
    room = budget_bytes - len(core) * _cost(result, durations, fine)
    more = [pair for pair in series if pair not in core]
    carried = more[: max(0, int(room // _cost(result, durations, coarse)))] if durations else []
    panels = read_panels(files, core, fine, durations)
    panels |= read_panels(files, carried, coarse, durations)
    return Telemetry(
        panels,
        (*core, *carried),
        durations,
        coarse if carried else fine,
        tuple(label(pair) for pair in more[len(carried) :]),
        tuple(label(pair) for pair in constant),
        invalid=invalid,
        missing_files=len(result.runs) - len(present),
    )


def _lines(result: StudyResult) -> int:
    """Lines of one panel: median, least and greatest per arm, and the median of the control's copy."""
    return 3 * len(result.summary.arms) + 1


def _fine_widths(durations_s: Mapping[str, float], lines: int, budget_bytes: float) -> dict[str, float]:
    """The bucket's width per step at which the core takes at most CORE_SHARE of the budget."""
    values = lines * sum(durations_s.values())
    shrink = max(1.0, values * BYTES_PER_VALUE / (budget_bytes * CORE_SHARE))
    return {step: bucket_width_s(s, max(LEAST_BUCKETS, int(s / shrink))) for step, s in durations_s.items()}


def _cost(result: StudyResult, durations_s: Mapping[str, float], widths_s: Mapping[str, float]) -> float:
    """What one series takes over all steps, in bytes."""
    buckets = sum(math.ceil(durations_s[step] / width) for step, width in widths_s.items())
    return buckets * _lines(result) * BYTES_PER_VALUE + 150 * len(widths_s)


def _choose(
    present: Mapping[Path, RunSummary], steps: Sequence[str]
) -> tuple[dict[str, dict[Path, RunSummary]], dict[str, tuple[str, ...]]]:
    """Per step the runs to draw: of each arm the usable ones, or, where it has none, all of them, and those arms."""
    files: dict[str, dict[Path, RunSummary]] = {}
    invalid: dict[str, tuple[str, ...]] = {}
    for step in steps:
        sound = {path: run for path, run in present.items() if run.usable(step)}
        groups = {(run.arm, run.copy_number) for run in sound.values()}
        others = {path: run for path, run in present.items() if (run.arm, run.copy_number) not in groups}
        files[step] = sound | others
        if others:
            names = (lane_name(run.arm, run.copy_number) for run in others.values())
            invalid[step] = tuple(dict.fromkeys(names))
    return files, invalid


def _durations(result: StudyResult) -> dict[str, float]:
    """How long each step's load lasted, warm-up and measured window together: the longest of all runs."""
    durations: dict[str, float] = {}
    for record in result.records.values():
        for step in record.steps:
            length = step.warmup_s + step.measure_s
            durations[step.id] = max(durations.get(step.id, 0.0), math.ceil(length))
    known = [step.id for step in result.steps]
    return {step: durations[step] for step in known if durations.get(step)}


def _ordered(pairs: set[Series]) -> list[Series]:
    """The published studies' metrics first, then what explains them, then the rest by name."""
    rank = {metric: index for index, metric in enumerate((*CORE, *EXPLAINING))}
    first = {preferred([pair for pair in pairs if pair[1] == metric]) for _, metric in pairs}

    def order(pair: Series) -> tuple[bool, int, str, str]:
        return (pair not in first, rank.get(pair[1], len(rank)), pair[1], pair[0])

    return sorted(pairs, key=order)


def label(pair: Series) -> str:
    """A series for people: what it is, and where it was taken."""
    return f"{metric_name(pair[1])} ({scope_name(pair[0])})"


def scope_name(scope: str) -> str:
    """Where a metric was taken, for people: host, server, load program; numbered only from the second on."""
    kind, _, number = scope.partition(":")
    name = {"instance": "server", "driver": "load program", "host": "host"}.get(kind, kind)
    return name if number in ("", "1") else f"{name} {number}"


def pack(values: Sequence[float]) -> str:
    """Base64 of the values as little-endian 32-bit floats; NaN stays NaN."""
    floats = array("f", values)
    if byteorder == "big":
        floats.byteswap()
    return base64.b64encode(floats.tobytes()).decode()


def page_data(result: StudyResult, telemetry: Telemetry) -> dict[str, Any]:
    """What the page's script reads of one study, with second copies as lines without a band."""
    groups, looks = list(result.lane_styles), list(result.lane_styles.values())
    lines: dict[PanelKey, Lines] = {}
    for key, panel in telemetry.panels.items():
        found = [(index, panel[group]) for index, group in enumerate(groups) if group in panel]
        width_s = next(iter(panel.values())).width_s
        lines[key] = (
            width_s,
            [
                (index, [one.middle] if groups[index][1] == 2 else [one.middle, one.low, one.high])
                for index, one in found
            ],
        )
    steps = [step for step in result.steps if step.id in telemetry.durations_s]
    windows = result.summary.windows
    ids = [step.id for step in steps]
    panels: dict[str, Any] = {}
    values: dict[Series, list[float]] = {pair: [] for pair in telemetry.series}
    for (step, *pair), (width_s, of_panel) in lines.items():
        at = (pair[0], pair[1])
        longest = max(len(parts[0]) for _, parts in of_panel)
        packed = []
        for group, parts in of_panel:
            packed.append([group, *(pack([*part, *[math.nan] * (longest - len(part))]) for part in parts)])
        panels[f"{ids.index(step)}:{telemetry.series.index(at)}"] = {"width": width_s, "lines": packed}
        values[at] += [value for _, parts in of_panel for value in parts[0] if not math.isnan(value)]
    units = {pair: display_unit(pair[1], max(found or [0.0])) for pair, found in values.items()}
    return {
        "groups": [{"label": one.label, "colour": one.colour, "dash": one.dash, "copy": one.copy} for one in looks],
        "steps": [
            {
                "id": step.id,
                "workload": step.workload,
                "level": step.level,
                "window": [windows[step.id].from_s, windows[step.id].to_s] if step.id in windows else None,
            }
            for step in steps
        ],
        "series": [
            {"metric": pair[1], "scope": pair[0], "label": label(pair), "divisor": of.divisor, "unit": of.label}
            for pair, of in units.items()
        ],
        "panels": panels,
    }
