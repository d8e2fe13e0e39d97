"""The studies' load over time in one chart: telemetry of blocks, or the slices of interleaved studies cycle by cycle.

Lines of one study have one dash, lines of one arm one colour. Time is that of the load, from its start: the sessions
were not at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from mydyno.document.charts.palette import COLOURS, DASHES
from mydyno.document.result import StudyResult
from mydyno.document.slices import rate
from mydyno.model.stored.records import SliceRecord
from mydyno.model.stored.summary import StepLevel
from mydyno.reports import envelopes
from mydyno.reports.envelopes import Panel, PanelKey, Series
from mydyno.reports.telemetry import CORE, EXPLAINING, label, offered, pack, read_these
from mydyno.results.across.labels import label as letter
from mydyno.wording.numbers import display_unit, metric_name

BUCKETS = 240
MOST_SERIES = 16
MOST_ARMS = 4
"""Arms of each study that are drawn: more lines cannot be distinguished."""
WANTED = frozenset((*CORE, *EXPLAINING))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a panel: the study, the arm, its values, and the band around them where there is one."""

    place: int
    arm: str
    middle: list[float]
    low: list[float] | None = None
    high: list[float] | None = None


def overlay_data(
    results: Sequence[StudyResult], steps: Sequence[StepLevel], arms: Sequence[str]
) -> dict[str, Any] | None:
    """What the chart's script reads; None without any series in common, or for studies of different designs."""
    designs = {result.summary.design for result in results}
    if len(designs) > 1 or not steps:
        return None
    shown = arms[:MOST_ARMS]
    unit = " s"
    if designs != {"blocks"}:
        metric = results[0].summary.primary
        found = _slices(results, steps, shown, metric if metric in ("tps", "qps", "ops", "tpmc") else "qps")
        widths: dict[str, float] = {step.id: 1.0 for step in steps}
        unit = ""
    else:
        found, widths = _telemetry(results, steps, shown)
    if not found:
        return None
    windows = [results[0].summary.windows.get(step.id) for step in steps]
    return {
        "unit": unit,
        "groups": [
            {
                "label": f"{letter(place)} {arm}" if len(results) > 1 else arm,
                "colour": index % COLOURS,
                "dash": DASHES[place % len(DASHES)],
                "copy": False,
            }
            for place in range(len(results))
            for index, arm in enumerate(shown)
        ],
        "steps": [
            {
                "id": step.id,
                "workload": step.workload,
                "level": step.short_level,
                "duration": 0,
                "window": None if unit == "" or window is None else [window.from_s, window.to_s],
            }
            for step, window in zip(steps, windows, strict=True)
        ],
        "series": [_series(key, found) for key in dict.fromkeys(key[1:] for key in found)],
        "panels": _panels(found, steps, widths, shown),
    }


def _telemetry(
    results: Sequence[StudyResult], steps: Sequence[StepLevel], arms: Sequence[str]
) -> tuple[dict[PanelKey, list[Line]], dict[str, float]]:
    """Per-second samples of the studies' runs, on one grid for all of them."""
    each = [offered(result) for result in results]
    common = [pair for pair in each[0][0] if pair[1] in WANTED and all(pair in series for series, _ in each)]
    common = common[:MOST_SERIES]
    durations = {
        step.id: max(lengths[step.id] for _, lengths in each)
        for step in steps
        if all(step.id in lengths for _, lengths in each)
    }
    widths = {step: envelopes.bucket_width_s(length, BUCKETS) for step, length in durations.items()}
    panels: list[dict[PanelKey, Panel]] = [read_these(result, common, widths, durations) for result in results]
    found: dict[PanelKey, list[Line]] = {}
    for key in ((step, *pair) for pair in common for step in widths):
        for place, of_study in enumerate(panels):
            for arm in arms:
                one = of_study.get(key, {}).get((arm, 1))
                if one is not None:
                    found.setdefault(key, []).append(Line(place, arm, one.middle, one.low, one.high))
    return found, widths


def _slices(
    results: Sequence[StudyResult], steps: Sequence[StepLevel], arms: Sequence[str], metric: str
) -> dict[PanelKey, list[Line]]:
    """One value for each cycle: the slices of an arm, blocks one after the other."""
    found: dict[PanelKey, list[Line]] = {}
    for step in steps:
        for place, result in enumerate(results):
            slices = result.slices.of_step(step.id)
            cycles = {key: index for index, key in enumerate(dict.fromkeys((one.block, one.cycle) for one in slices))}
            for arm in arms:
                own = [one for one in slices if one.arm == arm and one.copy_number == 1]
                for name, scope in (
                    (metric, "driver:1"),
                    ("latency_p99_us", "driver:1"),
                    ("server_cpu_us_per_query", "instance:1"),
                    ("cpu_steal_pct", "host"),
                ):
                    values = {cycles[one.block, one.cycle]: _value(one, name, metric) for one in own}
                    known = {at: value for at, value in values.items() if value is not None}
                    if known:
                        line = [known.get(at, math.nan) for at in range(len(cycles))]
                        found.setdefault((step.id, scope, name), []).append(Line(place, arm, line))
    return found


def _value(one: SliceRecord, name: str, metric: str) -> float | None:
    if name == metric:
        return rate(one, metric)
    if one.failed:
        return None
    if name == "latency_p99_us":
        return one.latency_us.get("p99")
    if name == "cpu_steal_pct":
        return None if one.steal is None else one.steal * 100.0
    return one.server_cpu_s * 1e6 / one.queries if one.server_cpu_s and one.queries else None


def _series(pair: tuple[str, ...], found: Mapping[PanelKey, Sequence[Line]]) -> dict[str, Any]:
    scope, metric = pair
    values = [
        value
        for key, lines in found.items()
        if key[1:] == pair
        for line in lines
        for value in line.middle
        if not math.isnan(value)
    ]
    unit = display_unit(metric, median(values) if values else 0.0)
    series: Series = (scope, metric)
    name = label(series) if metric in WANTED else metric_name(metric)
    return {"metric": metric, "scope": scope, "label": name, "divisor": unit.divisor, "unit": unit.label}


def _panels(
    found: Mapping[PanelKey, Sequence[Line]],
    steps: Sequence[StepLevel],
    widths: Mapping[str, float],
    arms: Sequence[str],
) -> dict[str, Any]:
    names = [step.id for step in steps]
    series = list(dict.fromkeys(key[1:] for key in found))
    panels: dict[str, Any] = {}
    for key, lines in found.items():
        longest = max(len(line.middle) for line in lines)
        packed = []
        for line in lines:
            group = line.place * len(arms) + arms.index(line.arm)
            parts = [line.middle] if line.low is None or line.high is None else [line.middle, line.low, line.high]
            packed.append([group, *(pack([*part, *[math.nan] * (longest - len(part))]) for part in parts)])
        panels[f"{names.index(key[0])}:{series.index(key[1:])}"] = {"width": widths[key[0]], "lines": packed}
    return panels
