"""How each arm's throughput grows with the connections: the Universal Scalability Law over the steps of a sweep.

Only closed loops count, where N connections are N transactions in progress. The unit is the block; a block counts for
an arm if every level has a valid value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

import numpy as np

from mydyno.analysis.base import Analysis, Examined
from mydyno.document.drawing import (
    ArmStyle,
    Linear,
    Svg,
    area,
    level_labels,
    polyline,
    tick_decimals,
    tick_text,
    value_frame,
    value_ticks,
)
from mydyno.document.parts import Cell, Figure, FigureGroup, Figures, Note, Part, Table, legend
from mydyno.document.result import StudyResult
from mydyno.language import agreed
from mydyno.model.definition.experiment import Experiment, Step
from mydyno.model.definition.special_steps import is_closed, slots, speed_of, thinks
from mydyno.model.stored.analyses import Estimate, ResponsePoint, ScalabilityRecord
from mydyno.stats.scalability import FEWEST_LEVELS, Bounds, Curve, Scalability, curve_levels, scalability
from mydyno.wording.numbers import DisplayUnit, display_unit, p_value, percent, rate_words, significant, size

WIDTH, HEIGHT = 356.0, 250.0
INSET = 14.0
BAND_ROOM = 1.5
"""The axis leaves this many times the highest mark or point of a curve for bands."""


@dataclass(frozen=True, slots=True)
class Swept:
    """One arm: (connections, value) of its levels, those of the fitted curve, and (throughput, latency)."""

    style: ArmStyle
    measured: tuple[tuple[float, float], ...]
    curve: tuple[tuple[float, float], ...]
    peak: float | None
    """Connections; None if there is none within the measured levels."""
    path: tuple[tuple[float, float], ...] = ()
    band: tuple[tuple[float, float, float], ...] = ()
    """(connections, lower, upper limit) around the curve."""


def scalability_chart(
    key: str, heading: str, description: str, unit: DisplayUnit, arms: Sequence[Swept], levels: Sequence[int]
) -> str:
    """Marks are measured, lines are fitted; a tick on the axis marks each peak within the levels.

    A band that is far wider than what it surrounds is cut at the upper edge.
    """
    svg = Svg(key, WIDTH, HEIGHT, agreed(f"{heading} against connections"), description)
    values = [value for one in arms for _, value in (*one.measured, *one.curve)]
    most = BAND_ROOM * max(values)
    values += [min(high, most) for one in arms for _, _, high in one.band]
    frame = value_frame(svg, unit, values, heading, from_zero=True)
    x = Linear(log2(min(levels)), log2(max(levels)), frame.left + INSET, frame.right - INSET)
    level_labels(svg, frame, {float(level): x(log2(level)) for level in levels}, "connections")
    for one in arms:
        svg.open_group(one.style.css)
        if one.band:
            upper = [(x(log2(n)), max(frame.top, frame.y(high))) for n, _, high in one.band]
            svg.path(area(upper, [(x(log2(n)), max(frame.top, frame.y(low))) for n, low, _ in one.band]), "band")
        svg.path(polyline([(x(log2(n)), frame.y(value)) for n, value in one.curve]), "line", one.style.dash)
        for n, value in one.measured:
            title = agreed(f"{one.style.label}, {n:.10g} connections: {unit.text(value, 4)}")
            svg.titled_mark(one.style.shape, x(log2(n)), frame.y(value), 3.1, "mark", title)
        if one.peak is not None:
            at = x(log2(one.peak))
            svg.line(at, frame.bottom - 9, at, frame.bottom, "line")
        svg.close_group()
    return svg.render()


def latency_chart(
    key: str,
    heading: str,
    description: str,
    units: tuple[DisplayUnit, DisplayUnit],
    arms: Sequence[Swept],
    throughput_name: str,
) -> str:
    """Latency against throughput, joined in the order of the connections; `units` are of throughput and latency."""
    across, up = units
    svg = Svg(key, WIDTH, HEIGHT, f"{heading} against throughput", description)
    frame = value_frame(svg, up, [latency for one in arms for _, latency in one.path], heading, from_zero=True)
    ticks = value_ticks([value / across.divisor for one in arms for value, _ in one.path], 5, from_zero=True)
    x = Linear(ticks[0] * across.divisor, ticks[-1] * across.divisor, frame.left, frame.right - INSET)
    for tick in ticks:
        at = x(tick * across.divisor)
        svg.line(at, frame.bottom, at, frame.bottom + 4, "axis")
        svg.text(at, frame.bottom + 16, tick_text(tick, tick_decimals(ticks)), "t num", "middle")
    label = f"{throughput_name}, {across.label}" if across.label else throughput_name
    svg.text((frame.left + frame.right) / 2, svg.height - 5, label, "t soft", "middle")
    for one in arms:
        svg.open_group(one.style.css)
        points = [(x(value), frame.y(latency)) for value, latency in one.path]
        svg.path(polyline(points), "line", one.style.dash)
        for (n, _), (value, latency), place in zip(one.measured, one.path, points, strict=True):
            speed = f"{across.text(value, 4)}, {up.text(latency, 4)}"
            title = agreed(f"{one.style.label}, {n:.10g} connections: {speed}")
            svg.titled_mark(one.style.shape, *place, 3.1, "mark", title)
        svg.close_group()
    return svg.render()


THROUGHPUT = ("tps", "ops", "tpmc")
"""Metrics of transactions or operations per unit of time; the first that the runs have is fitted."""
OF_ALL_TRANSACTIONS = ("tps", "ops")
"""Metrics that count every transaction or operation whose latency is measured (TpmC counts New-Orders)."""
LATENCY = "latency_p99_us"
RESPONSE = "latency_mean_us"
LACK_OF_FIT = 0.05
TOLERATED_DEVIATION = 0.05
"""A lack of fit that is certain but smaller than this is no reason to distrust the curve."""


def analyse(study: Examined) -> tuple[ScalabilityRecord, ...]:
    """Every sweep of connections and arm; empty without a sweep of at least FEWEST_LEVELS levels."""
    found = []
    for steps in _sweeps(study.experiment):
        for arm in study.experiment.arms:
            record = _record(study, steps, arm.name)
            if record is not None:
                found.append(record)
    return tuple(found)


def _sweeps(experiment: Experiment) -> list[list[Step]]:
    """Steps that differ in connections alone, by connections."""
    alike: dict[str, dict[int, Step]] = defaultdict(dict)
    for step in experiment.resolved_steps:
        if step.rate is None and step.search is None and speed_of(step) is None:
            rest = step.model_dump_json(exclude={"id", "connections"})
            alike[rest].setdefault(step.connections, step)
    return [[of[n] for n in sorted(of)] for of in alike.values() if len(of) >= FEWEST_LEVELS]


def _record(study: Examined, steps: Sequence[Step], arm: str) -> ScalabilityRecord | None:
    for metric in THROUGHPUT:
        values = _by_block(study, steps, arm, metric)
        if values:
            break
    else:
        return None
    levels = tuple(step.connections for step in steps)
    of_blocks = np.array(list(values.values()))
    law = scalability(levels, np.exp(of_blocks), 1 - study.alpha)
    if law is None:
        return None
    has_response = metric in OF_ALL_TRANSACTIONS and all(is_closed(step) and not thinks(step) for step in steps)
    p = law.lack_of_fit_p
    return ScalabilityRecord(
        workload=steps[0].workload,
        steps=tuple(step.id for step in steps),
        arm=arm,
        metric=metric,
        blocks=len(values),
        levels=levels,
        throughput=tuple(float(one) for one in np.exp(of_blocks.mean(axis=0))),
        latency_us=_means(study, steps, arm, LATENCY),
        serial=_estimate(law.serial),
        contention=_estimate(law.contention),
        coherency=_estimate(law.coherency),
        peak=None if law.peak is None else _estimate(law.peak),
        lack_of_fit_p=p,
        largest_deviation=law.largest_deviation,
        fits=p is None or p >= LACK_OF_FIT or law.largest_deviation <= TOLERATED_DEVIATION,
        response=_response(law, slots(study.experiment, arm, steps[0]) / steps[0].connections) if has_response else (),
        measured_response_us=_means(study, steps, arm, RESPONSE) if has_response else (),
    )


def _response(law: Scalability, under_way: float) -> tuple[ResponsePoint, ...]:
    """`under_way`: transactions under way on each connection (of all servers of a run, and in a pipeline)."""
    factor = 1e6 * under_way
    return tuple(
        ResponsePoint(
            connections=at,
            mean_us=factor * of.value,
            ci_low_us=None if of.low is None else factor * of.low,
            ci_high_us=None if of.high is None else factor * of.high,
        )
        for at, of in law.responses_s
    )


def _means(study: Examined, steps: Sequence[Step], arm: str, metric: str) -> tuple[float | None, ...]:
    blocks = list(_by_block(study, steps, arm, metric).values())
    return tuple(map(float, np.exp(np.mean(blocks, axis=0)))) if blocks else (None,) * len(steps)


def _by_block(study: Examined, steps: Sequence[Step], arm: str, metric: str) -> dict[int, list[float]]:
    """{block: log of the value at each level} of the blocks with every level."""
    of_step = [{block: of[arm] for block, of in study.logs(metric, step.id).items() if arm in of} for step in steps]
    return {block: [of[block] for of in of_step] for block in of_step[0] if all(block in of for of in of_step)}


def _estimate(bounds: Bounds) -> Estimate:
    return Estimate(value=bounds.value, ci_low=bounds.low, ci_high=bounds.high)


def peak_within(record: ScalabilityRecord) -> bool:
    """Whether the fitted peak lies within the measured levels."""
    return record.peak is not None and record.levels[0] <= record.peak.value <= record.levels[-1]


def saturation(record: ScalabilityRecord) -> str:
    """The sentence of one arm; it names the measured levels where the law does not hold."""
    most, arm = record.levels[-1], record.arm
    best = record.levels[record.throughput.index(max(record.throughput))]
    if not record.fits:
        off = size(record.largest_deviation)
        return agreed(f"{arm} does not follow the law (off by up to {off}); it was fastest at {best} connections.")
    if record.peak is not None and peak_within(record):
        return f"{arm} is fastest at about {record.peak.value:.0f} connections{_interval(record)}."
    contention = record.contention.value
    if record.peak is not None or contention <= 0:
        return agreed(f"{arm} is not saturated at {most} connections, the most that were measured.")
    bound = record.serial.value / contention
    share = record.throughput[-1] / bound
    reached = size(min(1.0, share))
    return agreed(f"{arm} levels off towards {rate_words(bound)}/s and reaches {reached} of it at {most} connections.")


def _interval(record: ScalabilityRecord) -> str:
    """The peak's interval; what lies beyond the measured levels is not given as a number."""
    peak = record.peak
    if peak is None or peak.ci_low is None or peak.ci_high is None:
        return ""
    low, high = max(peak.ci_low, record.levels[0]), peak.ci_high
    return f" ({low:.0f} or more)" if high > record.levels[-1] else f" ({low:.0f} to {high:.0f})"


def part(result: StudyResult) -> Part | None:
    """None if no workload was measured at enough numbers of connections."""
    records = result.summary.scalabilities
    if not records:
        return None
    sweeps: dict[tuple[str, ...], list[ScalabilityRecord]] = {}
    for record in records:
        sweeps.setdefault(record.steps, []).append(record)
    groups = [
        FigureGroup(
            own[0].workload,
            [
                Figure([], _table(own), "", "full", numbers_open=True),
                Figure([_curves(result, own, index)]),
                *([Figure([_responses(result, own, index)])] if all(one.response for one in own) else []),
                *([Figure([_latencies(result, own, index)])] if all(None not in one.latency_us for one in own) else []),
            ],
            text=" ".join(filter(None, [f(one) for one in own for f in (saturation, _response_at_peak)])),
        )
        for index, own in enumerate(sweeps.values())
    ]
    intro = (
        "Marks are measured, as means over the blocks; lines are the Universal Scalability Law fitted to them. "
        "Contention is the share of the work that waits for its turn; coherency is what each pair of connections costs "
        "the other, and makes throughput fall beyond a peak (the short stroke on the axis). The law describes these "
        "measurements and explains nothing by itself."
    ) + _about_responses(records)
    drawn = Figures(groups, legend(result, with_copy=False))
    says = saturation(records[0]) if len(records) == 1 else ""
    return Part(id="scalability", heading="Scalability", says=says, body=[Note(intro, "intro"), drawn])


def _about_responses(records: Sequence[ScalabilityRecord]) -> str:
    if not any(one.response for one in records):
        return ""
    return (
        " The curve of mean response times follows from the law as N / X(N); the band is the interval of each "
        "point, and marks are the measured mean latency."
    )


def _response_at_peak(record: ScalabilityRecord) -> str:
    """What the law gives as the response time at the saturation point, or that its curve does not hold."""
    if not record.response:
        return ""
    if not record.fits:
        return "Its curve of response times does not hold either."
    if record.peak is None or not peak_within(record):
        return ""
    curve, first = _curve_of(record), record.response[0]
    value = first.mean_us / curve.response_s(first.connections) * curve.response_s(record.peak.value)
    response = display_unit(RESPONSE, value).text(value, 3)
    return f"At this saturation point the fitted mean response time is {response}."


def _table(records: Sequence[ScalabilityRecord]) -> Table:
    rows: list[list[str | Cell]] = []
    for one in records:
        deviation = percent(one.largest_deviation)
        rows.append(
            [
                one.arm,
                _cell(one.serial),
                _cell(one.contention, 100.0),
                _cell(one.coherency, 100.0),
                _peak(one),
                Cell(deviation, "num", below="" if one.lack_of_fit_p is None else f"p {p_value(one.lack_of_fit_p)}"),
            ]
        )
    return Table(
        "The fitted law, with the intervals of each arm alone",
        ["arm", "one connection, 1/s", "contention, %", "coherency, %", "peak, connections", "off the curve by"],
        rows,
        "The last column is the largest deviation of a level from the curve, with the p of the test for lack of fit.",
    )


def _peak(record: ScalabilityRecord) -> Cell:
    """What lies beyond the measured levels is not given as a number."""
    if record.peak is None:
        return Cell("none", "num")
    return _cell(record.peak) if peak_within(record) else Cell(f"> {record.levels[-1]}", "num")


def _cell(of: Estimate, factor: float = 1.0) -> Cell:
    """An estimate above its interval."""
    interval = ""
    if of.ci_low is not None and of.ci_high is not None:
        interval = f"{significant(of.ci_low * factor, 2)} … {significant(of.ci_high * factor, 2)}"
    return Cell(significant(of.value * factor, 3), "num", below=interval)


def _curve_of(record: ScalabilityRecord) -> Curve:
    """The record's law, to be drawn."""
    return Curve(record.serial.value, record.contention.value, record.coherency.value)


def _swept(result: StudyResult, record: ScalabilityRecord) -> Swept:
    curve = _curve_of(record)
    path = [(x, y) for x, y in zip(record.throughput, record.latency_us, strict=True) if y is not None]
    return Swept(
        result.styles[record.arm],
        tuple((float(n), value) for n, value in zip(record.levels, record.throughput, strict=True)),
        tuple((n, curve.at(n)) for n in curve_levels(record.levels)),
        record.peak.value if record.peak is not None and peak_within(record) else None,
        tuple(path),
    )


def _curves(result: StudyResult, records: Sequence[ScalabilityRecord], index: int) -> str:
    metric = records[0].metric
    return scalability_chart(
        f"scalability:{index}",
        result.metric_name(metric),
        agreed(f"{result.metric_name(metric)} of {len(records)} arms by connections, measured and as the fitted law."),
        display_unit(metric, max(value for one in records for value in one.throughput)),
        [_swept(result, one) for one in records],
        records[0].levels,
    )


def _responses(result: StudyResult, records: Sequence[ScalabilityRecord], index: int) -> str:
    """The mean response time that follows from the law, its interval, and what was measured."""
    arms = [_responding(result, one) for one in records]
    return scalability_chart(
        f"scalability-response:{index}",
        result.metric_name(RESPONSE),
        agreed(
            f"Mean response time of {len(records)} arms by connections, "
            "measured and by the fitted law, with its interval."
        ),
        display_unit(RESPONSE, max(value for one in arms for _, value in (*one.measured, *one.curve))),
        arms,
        records[0].levels,
    )


def _responding(result: StudyResult, record: ScalabilityRecord) -> Swept:
    measured = zip(record.levels, record.measured_response_us, strict=True)
    return Swept(
        result.styles[record.arm],
        tuple((float(n), value) for n, value in measured if value is not None),
        tuple((one.connections, one.mean_us) for one in record.response),
        record.peak.value if record.peak is not None and peak_within(record) else None,
        band=tuple(
            (one.connections, one.ci_low_us, one.ci_high_us)
            for one in record.response
            if one.ci_low_us is not None and one.ci_high_us is not None
        ),
    )


def _latencies(result: StudyResult, records: Sequence[ScalabilityRecord], index: int) -> str:
    metric = records[0].metric
    latencies = [value for one in records for value in one.latency_us if value is not None]
    return latency_chart(
        f"scalability-latency:{index}",
        result.metric_name(LATENCY),
        f"{result.metric_name(LATENCY)} against {result.metric_name(metric)}, from the fewest to the most connections.",
        (
            display_unit(metric, max(value for one in records for value in one.throughput)),
            display_unit(LATENCY, max(latencies)),
        ),
        [_swept(result, one) for one in records],
        result.metric_name(metric),
    )


ANALYSIS = Analysis(chapter="load", part=part, stored="scalabilities", analyse=analyse)
