"""Experiments on the network: traffic against the link's ceiling, the cost of a transaction, parts of
published studies.

Absent from the page where no arm has a network, TLS or compression of its own. The ceiling is what the timed transfer
of the same runs delivered, as frames; an arm whose bandwidth this host could not reach has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from mydyno.document.drawing import ArmStyle, Linear, Svg, area, nice_ticks, polyline, value_frame
from mydyno.document.parts import Figure, FigureGroup, Figures, Note, Part, legend
from mydyno.document.result import StudyResult
from mydyno.hosts.network.link import FRAME_TO_PAYLOAD
from mydyno.model.stored.summary import StepLevel
from mydyno.reports.sections.metrics import metric_figure
from mydyno.reports.telemetry import Panel, read_one
from mydyno.wording.numbers import DisplayUnit, display_unit

TREATMENTS = ("network", "compression", "tls")
TRAFFIC = ("host", "network_tx_bytes_per_s")
TRAFFIC_OF_LOAD = ("host", "network_rx_bytes_per_s")
"""What comes from an external server: its own interface is not sampled, that of the load is."""
PRICES = ("network_bytes_per_transaction", "server_cpu_us_per_transaction", "driver_cpu_us_per_transaction")
POINTS = 45
UNSHAPED, LOOPBACK, OUTSIDE = "not shaped", "loopback", "as it is"
"""Links without a bandwidth of their own; the second is no link, and no interface that is sampled sees its bytes; the
third leads to an external server."""
NEAR = 8
"""A ceiling beyond so many times the greatest value would flatten everything below it: it is said, not drawn."""


@dataclass(frozen=True)
class Traffic:
    """What the server's interface sent over time, and what it could send at most."""

    panels: Mapping[str, Panel]
    durations_s: Mapping[str, float]
    ceilings: Mapping[str, float]
    """{arm: bytes per second of frames}; absent if the bandwidth was not reached."""


def build(result: StudyResult) -> Part | None:
    """The section; None for an experiment that leaves the network alone."""
    experiment = result.study.experiment
    if not any(name in arm.treatments for arm in experiment.arms for name in TREATMENTS) or not result.runs:
        return None
    panels, durations = read_one(result, _traffic(result), POINTS)
    traffic = Traffic(panels, durations, _ceilings(result))
    groups = _traffic_groups(result, traffic)
    for workload in result.workloads:
        steps = result.steps_of_workload(workload)
        linked = any(_bandwidth(result, arm) != LOOPBACK for arm in result.styles)
        wanted = (*PRICES, _traffic(result)[1]) if linked else PRICES
        figures = [figure for metric in wanted if (figure := metric_figure(result, metric, workload, steps))]
        groups.append(FigureGroup(f"The cost of a transaction, and the traffic: {workload}", figures))
    intro = (
        f"Traffic is what {_whose_interface(result)}, headers included. CPU per transaction is that of the server's "
        "and the load's processes; the kernel may charge the processing of a packet to either side."
    )
    return Part(
        id="network", heading="Network: traffic, bytes and CPU per transaction", folded=True,
        body=[Note(intro, "intro"), Figures(groups, legend(result, with_copy=True))],
    )  # fmt: skip


def _traffic_groups(result: StudyResult, traffic: Traffic) -> list[FigureGroup]:
    """Per workload a row of pictures for each bandwidth, one per level, with that bandwidth's ceiling."""
    by_bandwidth: dict[str, list[str]] = {}
    for arm in result.styles:
        if _bandwidth(result, arm) != LOOPBACK:
            by_bandwidth.setdefault(_bandwidth(result, arm), []).append(arm)
    groups = []
    for workload in result.workloads:
        figures = [
            figure
            for bandwidth, of_bandwidth in by_bandwidth.items()
            for step in result.steps_of_workload(workload)
            if (figure := _traffic_figure(result, traffic, step, bandwidth, of_bandwidth))
        ]
        groups.append(FigureGroup(f"Traffic over time against the link's ceiling: {workload}", figures))
    return groups


def _traffic_figure(
    result: StudyResult, traffic: Traffic, step: StepLevel, bandwidth: str, arms: Collection[str]
) -> Figure | None:
    panel = traffic.panels.get(step.id)
    series = _time_series(result, panel, arms) if panel else []
    values = [value for one in series for value in one.high if value is not None]
    if not values:
        return None
    known = [traffic.ceilings[arm] for arm in arms if arm in traffic.ceilings]
    ceiling = median(known) if known else None
    near = ceiling is not None and ceiling < NEAR * max(values)
    unit = display_unit(_traffic(result)[1], max(values))
    window = result.summary.windows.get(step.id)
    words = _unbounded(bandwidth) if ceiling is None else f"ceiling {unit.text(ceiling)}"
    label = unit.label if near or not words else f"{unit.label} · {words}"
    chart = timeline_chart(
        f"traffic:{bandwidth}:{step.id}",
        f"{bandwidth}, {step.level}",
        (
            f"Bytes per second that {_whose_interface(result)}, {step.workload} at {step.level}: median of each "
            f"arm's runs, with the range of all its runs as a band. {words}"
        ).rstrip(),
        DisplayUnit(unit.divisor, label),
        series,
        traffic.durations_s[step.id],
        (window.from_s, window.to_s) if window else None,
        ceiling=(ceiling, words) if near and ceiling is not None else None,
    )
    return Figure([chart])


def _time_series(result: StudyResult, panel: Panel, arms: Collection[str]) -> list[TimeSeries]:
    """The lines of these arms, thinned by joining neighbours to at most POINTS."""
    series = []
    for group, style in result.lane_styles.items():
        if group not in panel or style.copy or style.name not in arms:
            continue
        line = panel[group]
        factor = max(1, math.ceil(len(line.middle) / POINTS))
        seconds = line.seconds()[factor - 1 :: factor]
        middle, low = _joined(line.middle, factor, fmean), _joined(line.low, factor, min)
        high = _joined(line.high, factor, max)
        cut = len(seconds)
        series.append(TimeSeries(style, seconds, middle[:cut], low[:cut], high[:cut]))
    return series


def _joined(line: Sequence[float], factor: int, how: Callable[[list[float]], float]) -> list[float | None]:
    pieces = (line[start : start + factor] for start in range(0, len(line), factor))
    known = ([value for value in piece if not math.isnan(value)] for piece in pieces)
    return [how(values) if values else None for values in known]


Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """One arm over time: medians of its runs, and the least and largest value of any of them."""

    style: ArmStyle
    seconds: Sequence[float]
    middle: Values
    low: Values = ()
    high: Values = ()


def timeline_chart(
    key: str,
    heading: str,
    description: str,
    unit: DisplayUnit,
    series: Sequence[TimeSeries],
    duration_s: float,
    window: tuple[float, float] | None = None,
    ceiling: tuple[float, str] | None = None,
) -> str:
    """The chart; `window` is the measured part (the rest is shaded).

    `ceiling` is (value, label) of what the series cannot exceed; with it the axis begins at zero.
    """
    svg = Svg(key, 356, 200, f"{heading} over time", description)
    values = [v for one in series for line in (one.middle, one.low, one.high) for v in line if v is not None]
    if ceiling:
        values.append(ceiling[0])
    frame = value_frame(svg, unit, values, heading, from_zero=ceiling is not None, count=4)
    ticks = [tick for tick in nice_ticks(0, duration_s, 6) if tick <= duration_s * 1.001]
    x = Linear(0, duration_s, frame.left, frame.right)
    if window:
        svg.rect(x(0), frame.top, x.clamp(window[0]) - x(0), frame.bottom - frame.top, "outside")
        svg.rect(x.clamp(window[1]), frame.top, x(duration_s) - x.clamp(window[1]), frame.bottom - frame.top, "outside")
    for tick in ticks:
        svg.text(x(tick), frame.bottom + 15, f"{tick:g}", "t num", "middle")
    svg.text((frame.left + frame.right) / 2, svg.height - 5, "seconds", "t soft", "middle")
    for one in series:
        svg.open_group(one.style.css)
        if one.low and one.high:
            svg.path(
                area(_points(x, frame.y, one.seconds, one.high), _points(x, frame.y, one.seconds, one.low)), "band"
            )
        svg.path(polyline(_points(x, frame.y, one.seconds, one.middle)), "line thin", one.style.dash)
        svg.close_group()
    if ceiling:
        y = frame.y(ceiling[0])
        svg.line(frame.left, y, frame.right, y, "ceiling")
        svg.text(frame.right - 2, y - 4, ceiling[1], "t soft", "end")
    return svg.render()


def _points(x: Linear, y: Linear, seconds: Sequence[float], values: Values) -> list[tuple[float, float] | None]:
    return [
        None if value is None else (round(x(second), 0), y(value))
        for second, value in zip(seconds, values, strict=True)
    ]


def _traffic(result: StudyResult) -> tuple[str, str]:
    return TRAFFIC if result.study.experiment.server.dsn is None else TRAFFIC_OF_LOAD


def _whose_interface(result: StudyResult) -> str:
    outside = result.study.experiment.server.dsn is not None
    return "the load's interface received" if outside else "the server's interface sent"


def _unbounded(bandwidth: str) -> str:
    """Why there is no ceiling; empty if none was asked for."""
    return "" if bandwidth in (UNSHAPED, OUTSIDE) else f"{bandwidth} not reached here"


def _bandwidth(result: StudyResult, arm: str) -> str:
    network = result.study.experiment.arm(arm).treatments.get("network")
    named = network.get("bandwidth") if isinstance(network, dict) else network
    outside = result.study.experiment.server.dsn is not None
    return str(named) if named else OUTSIDE if outside else UNSHAPED if network is not None else LOOPBACK


def _ceilings(result: StudyResult) -> dict[str, float]:
    """{arm: what its link delivered, as frames}, of arms whose link reached its bandwidth in most of their runs."""
    found: dict[str, list[float]] = {}
    reached: dict[str, list[bool]] = {}
    for run in result.runs:
        for evidence in run.evidence:
            facts = evidence.facts
            if evidence.treatment == "network" and facts.get("bandwidth") and facts.get("to_load_bits_per_s"):
                found.setdefault(run.arm, []).append(facts["to_load_bits_per_s"] / 8 * FRAME_TO_PAYLOAD)
                reached.setdefault(run.arm, []).append(bool(facts.get("reached")))
    return {arm: median(rates) for arm, rates in found.items() if median(reached[arm]) >= 0.5}
