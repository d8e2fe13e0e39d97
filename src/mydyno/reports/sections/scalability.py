"""How each arm's throughput grows with the connections: the fitted law, its peak, and latency against throughput."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from mydyno.document.charts.scalability import Swept, latency_chart, scalability_chart
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Figure, FigureGroup, Section, Table, legend, render
from mydyno.language import agreed
from mydyno.model.stored.scalability import Estimate, ScalabilityRecord
from mydyno.results.scalability import LATENCY, RESPONSE, curve_of
from mydyno.stats.scalability import curve_levels
from mydyno.wording.numbers import display_unit, p_value, percent, significant
from mydyno.wording.scalability import peak_within, saturation


def build(result: StudyResult) -> Section | None:
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
    return Section(
        "scalability",
        "Scalability",
        "Scalability",
        render(
            "figures.html",
            intro=(
                "Marks are measured, as means over the blocks; lines are the Universal Scalability Law fitted "
                "to them. Contention is the share of the work that waits for its turn; coherency is what each "
                "pair of connections costs the other, and makes throughput fall beyond a peak (the short stroke "
                "on the axis). The law describes these measurements and explains nothing by itself."
            )
            + _about_responses(records),
            legend=legend(result, with_copy=False),
            groups=groups,
            empty="",
        ),
        saturation(records[0]),
    )


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
    curve, first = curve_of(record), record.response[0]
    value = first.mean_us / curve.response_s(first.connections) * curve.response_s(record.peak.value)
    response = display_unit(RESPONSE, value).text(value, 3)
    return f"At this saturation point the fitted mean response time is {response}."


def _table(records: Sequence[ScalabilityRecord]) -> Table:
    rows: list[list[str | Cell]] = []
    for one in records:
        deviation = percent(one.largest_deviation)
        rows.append([
            one.arm,
            _cell(one.serial),
            _cell(one.contention, 100.0),
            _cell(one.coherency, 100.0),
            _peak(one),
            Cell(deviation, "num", below="" if one.lack_of_fit_p is None else f"p {p_value(one.lack_of_fit_p)}"),
        ])  # fmt: skip
    return Table(
        "The fitted law, with the intervals of each arm alone",
        [
            "arm",
            "one connection, 1/s",
            "contention, %",
            "coherency, %",
            "peak, connections",
            "off the curve by",
        ],
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


def _swept(result: StudyResult, record: ScalabilityRecord) -> Swept:
    curve = curve_of(record)
    path = [(x, y) for x, y in zip(record.throughput, record.latency_us, strict=True) if y is not None]
    return Swept(
        result.styles[record.arm],
        tuple((float(n), value) for n, value in zip(record.levels, record.throughput, strict=True)),
        tuple((n, curve.at(n)) for n in curve_levels(record.levels)),
        record.peak.value if record.peak is not None and peak_within(record) else None,
        tuple(path),
    )


def _curves(result: StudyResult, records: Sequence[ScalabilityRecord], index: int) -> Markup:
    metric = records[0].metric
    chart = scalability_chart(
        f"scalability:{index}",
        result.metric_name(metric),
        agreed(f"{result.metric_name(metric)} of {len(records)} arms by connections, measured and as the fitted law."),
        display_unit(metric, max(value for one in records for value in one.throughput)),
        [_swept(result, one) for one in records],
        records[0].levels,
    )
    return Markup(chart)


def _responses(result: StudyResult, records: Sequence[ScalabilityRecord], index: int) -> Markup:
    """The mean response time that follows from the law, its interval, and what was measured."""
    arms = [_responding(result, one) for one in records]
    chart = scalability_chart(
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
    return Markup(chart)


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


def _latencies(result: StudyResult, records: Sequence[ScalabilityRecord], index: int) -> Markup:
    metric = records[0].metric
    latencies = [value for one in records for value in one.latency_us if value is not None]
    chart = latency_chart(
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
    return Markup(chart)
