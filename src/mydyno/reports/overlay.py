"""The studies' load over time in one chart: telemetry of blocks, or the slices of interleaved studies cycle by cycle.

Lines of one study have one dash, lines of one arm one colour. Time is that of the load, from its start: the sessions
were not at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from mydyno.document.charts.palette import COLOURS, DASHES
from mydyno.document.result import StudyResult
from mydyno.document.slices import rate
from mydyno.model.stored.records import SliceRecord
from mydyno.model.stored.summary import StepLevel
from mydyno.reports import envelopes
from mydyno.reports.envelopes import PanelKey
from mydyno.reports.telemetry import CORE, EXPLAINING, Lines, chart_data, offered, read_these
from mydyno.results.across.labels import label as letter

BUCKETS = 240
MOST_SERIES = 16
MOST_ARMS = 4
"""Arms of each study that are drawn: more lines cannot be distinguished."""
WANTED = frozenset((*CORE, *EXPLAINING))


def overlay_data(
    results: Sequence[StudyResult], steps: Sequence[StepLevel], arms: Sequence[str]
) -> dict[str, Any] | None:
    """What the chart's script reads; None without any series in common, or for studies of different designs."""
    designs = {result.summary.design for result in results}
    if len(designs) > 1 or not steps:
        return None
    shown, is_blocks = arms[:MOST_ARMS], designs == {"blocks"}
    if is_blocks:
        found = _telemetry(results, steps, shown)
    else:
        metric = results[0].summary.primary
        found = _slices(results, steps, shown, metric if metric in ("tps", "qps", "ops", "tpmc") else "qps")
    if not found:
        return None
    groups = [
        {
            "label": f"{letter(place)} {arm}" if len(results) > 1 else arm,
            "colour": index % COLOURS,
            "dash": DASHES[place % len(DASHES)],
            "copy": False,
        }
        for place in range(len(results))
        for index, arm in enumerate(shown)
    ]
    series = list(dict.fromkeys((scope, metric) for _, scope, metric in found))
    windows = results[0].summary.windows if is_blocks else {}
    return chart_data(groups, steps, windows, series, found, median, " s" if is_blocks else "")


def _telemetry(
    results: Sequence[StudyResult], steps: Sequence[StepLevel], arms: Sequence[str]
) -> dict[PanelKey, Lines]:
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
    panels = [read_these(result, common, widths, durations) for result in results]
    found: dict[PanelKey, Lines] = {}
    for key in ((step, *pair) for pair in common for step in widths):
        for place, of_study in enumerate(panels):
            for index, arm in enumerate(arms):
                one = of_study.get(key, {}).get((arm, 1))
                if one is not None:
                    _, lines = found.setdefault(key, (widths[key[0]], []))
                    lines.append((place * len(arms) + index, [one.middle, one.low, one.high]))
    return found


def _slices(
    results: Sequence[StudyResult], steps: Sequence[StepLevel], arms: Sequence[str], metric: str
) -> dict[PanelKey, Lines]:
    """One value for each cycle: the slices of an arm, blocks one after the other."""
    found: dict[PanelKey, Lines] = {}
    for step in steps:
        for place, result in enumerate(results):
            slices = result.slices.of_step(step.id)
            cycles = {key: index for index, key in enumerate(dict.fromkeys((one.block, one.cycle) for one in slices))}
            for index, arm in enumerate(arms):
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
                        _, lines = found.setdefault((step.id, scope, name), (1.0, []))
                        lines.append((place * len(arms) + index, [line]))
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
