"""Which telemetry a page carries, at which resolution, and its packing: base64 of little-endian Float32.

The published studies' charts (CPU user, QPS, TPS, RSS, VSIZE, and latency beside them) are always carried, whole where they
fit. What explains them follows in the order below, coarser, until the page's budget is used up; the rest stays in
samples.parquet, and the page says which.
"""

from __future__ import annotations

import base64
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from sys import byteorder
from typing import Any

from mydyno.model.records import RunSummary
from mydyno.reports import envelopes
from mydyno.reports.charts.palette import copy_style
from mydyno.reports.envelopes import SESSION, Panel, PanelKey
from mydyno.reports.numbers import display_unit, metric_name
from mydyno.reports.result import StudyResult

CORE = ("qps", "tps", "cpu_user_pct", "server_rss_bytes", "server_vsize_bytes", "latency_p99_us")
EXPLAINING = (
    "tpmc",
    "cpu_system_pct",
    "cpu_iowait_pct",
    "innodb_checkpoint_age_bytes",
    "innodb_dirty_pages_pct",
    "disk_read_bytes_per_s",
    "disk_write_bytes_per_s",
    "disk_util_pct",
    "network_rx_bytes_per_s",
    "network_tx_bytes_per_s",
    "cpu_steal_pct",
)
PREFERRED_SCOPES = {"qps": "driver", "tps": "driver", "cpu_user_pct": "host", "server": "instance", "latency": "driver"}
BYTES_PER_VALUE = 4 * 4 / 3
COARSE_BUCKETS = 60


@dataclass(frozen=True)
class Telemetry:
    """The panels that a page carries, and what it leaves out."""

    panels: dict[PanelKey, Panel]
    series: tuple[tuple[str, str], ...]
    """(scope, metric) in the order in which they are offered."""
    durations_s: dict[str, float]
    widths_s: dict[str, float]
    left_out: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    of_invalid_runs: bool = False
    missing_files: int = 0
    session: dict[int, Panel] = field(default_factory=dict)
    """Resident memory over whole runs, by block."""
    session_scope: str = ""
    session_all: Panel = field(default_factory=dict)

    def core(self, metric: str) -> tuple[str, str] | None:
        """The (scope, metric) that stands for a metric of the published studies, or None where no run has it."""
        return preferred([pair for pair in self.series if pair[1] == metric])


def preferred(pairs: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """Of one metric seen in several scopes the one a reader expects: the load program's QPS, the host's CPU."""
    if not pairs:
        return None
    metric = pairs[0][1]
    wanted = PREFERRED_SCOPES.get(metric) or PREFERRED_SCOPES.get(metric.split("_", maxsplit=1)[0], "instance")
    return min(pairs, key=lambda pair: (not pair[0].startswith(wanted), pair[0] != "host", pair[0]))


def read_telemetry(result: StudyResult, budget_bytes: float) -> Telemetry:
    """Read and reduce the samples of a study's runs so that their packing stays within the budget."""
    chosen = [run for run in result.runs if run.valid] or list(result.runs)
    every = {result.folder.samples_path(run.folder): run for run in chosen}
    files = {path: run for path, run in every.items() if path.is_file()}
    if not files:
        return Telemetry({}, (), {}, {}, missing_files=len(every))
    durations = _durations(result)
    lines = 3 * len(result.summary.arms) + 1
    core_values = len(CORE) * lines * sum(durations.values())
    allowed = budget_bytes * 0.6 / BYTES_PER_VALUE
    shrink = max(1.0, core_values / allowed)
    widths = {step: envelopes.bucket_width_s(s, max(20, int(s / shrink))) for step, s in durations.items()}
    panels = envelopes.read_panels(files, widths, durations)
    panels, constant = _without_constants(panels)
    series = _ordered({key[1:] for key in panels})
    kept, left_out, reduced = _fit(panels, series, durations, budget_bytes)
    session_s = envelopes.session_duration_s(files)
    rss = preferred([pair for pair in series if pair[1] == "server_rss_bytes"])
    return Telemetry(
        reduced,
        tuple(kept),
        durations,
        widths,
        tuple(_label(pair) for pair in left_out),
        tuple(_label(pair) for pair in constant),
        of_invalid_runs=not result.any_valid,
        missing_files=len(every) - len(files),
        **_session(files, rss, session_s),
    )


def _session(files: Mapping[Path, RunSummary], rss: tuple[str, str] | None, duration_s: float) -> dict[str, Any]:
    """Resident memory over whole runs: of all blocks together, and block by block."""
    if rss is None or duration_s <= 0:
        return {}
    width = envelopes.bucket_width_s(duration_s, 150)
    together = envelopes.read_session(files, *rss, width, duration_s)
    return {
        "session": envelopes.read_blocks(files, *rss, envelopes.bucket_width_s(duration_s, 100)),
        "session_scope": rss[0],
        "session_all": together,
    }


def _durations(result: StudyResult) -> dict[str, float]:
    """How long each step's load lasted, warm-up and measured window together: the longest of all runs."""
    durations: dict[str, float] = {}
    for record in result.records.values():
        for step in record.steps:
            length = step.warmup_s + step.measure_s
            durations[step.id] = max(durations.get(step.id, 0.0), math.ceil(length))
    known = [step.id for step in result.steps]
    return {step: durations[step] for step in known if durations.get(step)}


def _without_constants(panels: dict[PanelKey, Panel]) -> tuple[dict[PanelKey, Panel], list[tuple[str, str]]]:
    """Leave out what is zero in every sample of every run (swap, steal …); these are named instead."""
    extremes: dict[tuple[str, str], float] = {}
    for (_, scope, metric), panel in panels.items():
        for envelope in panel.values():
            largest = max((abs(v) for line in (envelope.low, envelope.high) for v in line if v == v), default=0.0)
            extremes[scope, metric] = max(extremes.get((scope, metric), 0.0), largest)
    constant = [pair for pair, largest in extremes.items() if largest == 0 and pair[1] not in CORE]
    return {key: panel for key, panel in panels.items() if key[1:] not in constant}, sorted(constant)


def _ordered(pairs: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """The published studies' metrics first, then what explains them, then the rest by name."""
    rank = {metric: index for index, metric in enumerate((*CORE, *EXPLAINING))}
    first = {preferred([pair for pair in pairs if pair[1] == metric]) for _, metric in pairs}

    def order(pair: tuple[str, str]) -> tuple[bool, int, str, str]:
        return (pair not in first, rank.get(pair[1], len(rank)), pair[1], pair[0])

    return sorted(pairs, key=order)


def _fit(
    panels: dict[PanelKey, Panel],
    series: Sequence[tuple[str, str]],
    durations_s: Mapping[str, float],
    budget_bytes: float,
) -> tuple[list[tuple[str, str]], list[tuple[str, str]], dict[PanelKey, Panel]]:
    """Keep series in order while they fit; those beyond the core are made coarser."""
    kept: list[tuple[str, str]] = []
    left_out: list[tuple[str, str]] = []
    result: dict[PanelKey, Panel] = {}
    used = 0.0
    core = [preferred([pair for pair in series if pair[1] == metric]) for metric in CORE]
    for pair in series:
        of_pair = {key: panel for key, panel in panels.items() if key[1:] == pair}
        if pair not in core:
            of_pair = {
                key: {group: _coarser(line, durations_s[key[0]]) for group, line in panel.items()}
                for key, panel in of_pair.items()
            }
        cost = sum(_size(panel) for panel in of_pair.values())
        if pair not in core and used + cost > budget_bytes:
            left_out.append(pair)
            continue
        used += cost
        kept.append(pair)
        result |= of_pair
    return kept, left_out, result


def _coarser(envelope: envelopes.Envelope, duration_s: float) -> envelopes.Envelope:
    """Join neighbouring buckets until there are at most COARSE_BUCKETS: means of medians, outermost range."""
    width = envelopes.bucket_width_s(duration_s, COARSE_BUCKETS)
    factor = round(width / envelope.width_s)
    if factor <= 1:
        return envelope

    def join(line: Sequence[float], how: str) -> list[float]:
        joined = []
        for start in range(0, len(line), factor):
            values = [value for value in line[start : start + factor] if value == value]
            if not values:
                joined.append(math.nan)
            else:
                joined.append({"mean": sum(values) / len(values), "min": min(values), "max": max(values)}[how])
        return joined

    return envelopes.Envelope(
        envelope.width_s * factor,
        join(envelope.middle, "mean"),
        join(envelope.low, "min"),
        join(envelope.high, "max"),
        envelope.runs,
    )


def _size(panel: Panel) -> float:
    return sum((3 if copy == 1 else 1) * len(line.middle) for (_, copy), line in panel.items()) * BYTES_PER_VALUE + 120


def _label(pair: tuple[str, str]) -> str:
    return f"{metric_name(pair[1])} ({scope_name(pair[0])})"


def scope_name(scope: str) -> str:
    """Where a metric was taken, for people: host, server, load program; numbered only from the second on."""
    kind, _, number = scope.partition(":")
    name = {"instance": "server", "driver": "load program"}.get(kind, kind)
    return name if number in ("", "1") else f"{name} {number}"


def pack(values: Sequence[float]) -> str:
    """Base64 of the values as little-endian 32-bit floats; NaN stays NaN."""
    floats = array("f", values)
    if byteorder == "big":
        floats.byteswap()
    return base64.b64encode(floats.tobytes()).decode()


def page_data(result: StudyResult, telemetry: Telemetry) -> dict[str, Any]:
    """What the page's script reads: arms, steps, series, and for every panel its groups' packed lines."""
    styles = result.styles
    groups: list[tuple[str, int]] = [(arm, 1) for arm in styles] + [(result.summary.control, 2)]
    looks = [*styles.values(), copy_style(styles[result.summary.control])]
    steps = [step for step in result.steps if step.id in telemetry.durations_s]
    windows = result.summary.windows
    panels = {}
    for (step, scope, metric), panel in telemetry.panels.items():
        where = f"{[one.id for one in steps].index(step)}:{telemetry.series.index((scope, metric))}"
        first = next(iter(panel.values()))
        panels[where] = {
            "width": first.width_s,
            "lines": [
                [index, pack(panel[group].middle)]
                + ([pack(panel[group].low), pack(panel[group].high)] if group[1] == 1 else [])
                for index, group in enumerate(groups)
                if group in panel
            ],
        }
    return {
        "groups": [
            {"label": look.label, "colour": look.colour, "dash": look.dash, "copy": look.copy} for look in looks
        ],
        "steps": [
            {
                "id": step.id,
                "workload": step.workload,
                "level": step.level,
                "duration": telemetry.durations_s[step.id],
                "window": [windows[step.id].from_s, windows[step.id].to_s] if step.id in windows else None,
            }
            for step in steps
        ],
        "series": [
            {"metric": metric, "scope": scope, "label": _label((scope, metric)), **_unit(telemetry, scope, metric)}
            for scope, metric in telemetry.series
        ],
        "panels": panels,
    }


def _unit(telemetry: Telemetry, scope: str, metric: str) -> dict[str, Any]:
    unit = display_unit(metric, largest(telemetry, scope, metric))
    return {"divisor": unit.divisor, "unit": unit.label}


def largest(telemetry: Telemetry, scope: str, metric: str) -> float:
    """The greatest value of a series over all steps: what its unit is chosen by."""
    return max(
        (
            value
            for key, panel in telemetry.panels.items()
            if key[1:] == (scope, metric)
            for line in panel.values()
            for value in line.middle
            if value == value
        ),
        default=0.0,
    )
