"""The absolute values: a table of all metrics where a workload has one level of load, else each against the load."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from markupsafe import Markup

from mydyno.language import agreed
from mydyno.reports.charts.palette import ArmStyle, copy_style
from mydyno.reports.charts.sweep import SweepSeries, sweep_chart
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Cell, Figure, FigureGroup, Section, Table, legend, render, within
from mydyno.wording.numbers import DisplayUnit, display_unit, metric_name
from mydyno.wording.stored_result import ReportStep

FIRST = ("ops", "qps", "tps", "latency_p99_us", "cpu_user_pct", "server_rss_bytes", "server_vsize_bytes")
OTHER_CHARACTERS = 300_000
"""Room for metrics beyond the leading ones."""


def build(result: StudyResult, elsewhere: Collection[str] = ()) -> Section:
    """Per workload: a table where it has one level; else small multiples of the leading metrics, the others folded.

    What has its charts elsewhere in the page is left out.
    """
    leading = [metric for metric in dict.fromkeys((*FIRST, result.summary.primary)) if metric in result.metrics]
    rest = [metric for metric in result.metrics if metric not in leading and metric not in elsewhere]
    others = [metric for metric in rest if not _is_zero(result, metric)]
    zeros = [result.metric_name(metric) for metric in rest if metric not in others]
    swept = [workload for workload in result.workloads if len(result.steps_of_workload(workload)) > 1]
    drawn = {metric: _by_workload(result, metric, swept) for metric in others}
    kept, left = within({metric: list(figures.values()) for metric, figures in drawn.items()}, OTHER_CHARACTERS)
    groups = []
    for workload in result.workloads:
        steps = result.steps_of_workload(workload)
        if workload not in swept:
            groups.append(FigureGroup(workload, _values(result, [*leading, *others], steps[0])))
            continue
        figures = [figure for metric in leading if (figure := metric_figure(result, metric, workload, steps))]
        groups.append(FigureGroup(workload, figures))
        figures = [drawn[metric][workload] for metric in kept if workload in drawn[metric]]
        groups.append(FigureGroup(f"{workload}: other metrics", figures, folded=True))
    groups = [group for group in groups if group.figures]
    notes = [
        "Geometric means of the valid runs (of both copies of the control), with the least and the greatest "
        "run below. An effect is the ratio of these means where no run is lost."
    ]
    if swept:
        notes.append("In charts, small dots are runs, large marks the same means, crosses runs that are not valid.")
    if zeros:
        notes.append(f"Zero in every run: {', '.join(zeros)}.")
    if left:
        notes.append(f"Only in csv and json, to limit the size of the page: {', '.join(map(metric_name, left))}.")
    return Section(
        "connections",
        "Each metric against the load" if swept else "Absolute values",
        "Load" if swept else "Values",
        render(
            "figures.html",
            intro=" ".join(notes),
            legend=legend(result, with_copy=True) if swept else "",
            groups=groups,
            empty="" if groups else "No run has a value yet.",
        ),
    )


def _by_workload(result: StudyResult, metric: str, workloads: Collection[str]) -> dict[str, Figure]:
    """The metric's figure for every workload that has values of it."""
    return {
        workload: figure
        for workload in workloads
        if (figure := metric_figure(result, metric, workload, result.steps_of_workload(workload)))
    }


def metric_figure(
    result: StudyResult,
    metric: str,
    workload: str,
    steps: tuple[ReportStep, ...],
    arms: Collection[str] | None = None,
    where: str = "",
) -> Figure | None:
    """A metric against the level of load with its table, of these arms alone where said; None if no run has a value.

    `where` keeps the chart's name apart from that of the same metric in another section.
    """
    series = _series(result, metric, steps, arms)
    values = [value for one in series for _, value, _ in one.points]
    if not values:
        return None
    unit = display_unit(metric, max(abs(value) for value in values), _unit(result, metric))
    chart = sweep_chart(
        f"sweep:{metric}:{workload}{where}",
        result.metric_name(metric),
        agreed(
            f"{result.metric_name(metric)} of {workload} at {len(steps)} levels, {len(series)} arms; the table "
            "has them all."
        ),
        unit,
        series,
        [step.amount for step in steps],
        steps[0].amount_name,
    )
    return Figure([Markup(chart)], _table(result, metric, workload, steps, unit, arms))


def _values(result: StudyResult, metrics: Collection[str], step: ReportStep) -> list[Figure]:
    """One table of every metric that has a value at the step; empty if none has."""
    rows: list[Sequence[str | Cell]] = []
    for metric in metrics:
        known = [value for _, value, _ in result.values(metric, step.id)]
        if known:
            unit = display_unit(metric, max(map(abs, known)), _unit(result, metric))
            name = f"{result.metric_name(metric)}, {unit.label}"
            cells = [_cell(result, metric, step, arm, unit) for arm in result.styles]
            rows.append([name if unit.label else result.metric_name(metric), *cells])
    if not rows:
        return []
    caption = f"{step.workload}, {step.level}: absolute values"
    return [Figure([], Table(caption, ["metric", *result.styles], rows), css="full", numbers_open=True)]


def _cell(result: StudyResult, metric: str, step: ReportStep, arm: str, unit: DisplayUnit) -> Cell:
    level = result.level_of(metric, step.id, arm)
    if level is None:
        return Cell("–", "num")
    values = [value for run, value, used in result.values(metric, step.id) if used and run.arm == arm]
    spread = f"{unit.number(min(values))}–{unit.number(max(values))}" if len(values) > 1 else ""
    return Cell(unit.number(level, 4), "num", below=spread)


def _series(
    result: StudyResult, metric: str, steps: tuple[ReportStep, ...], arms: Collection[str] | None = None
) -> list[SweepSeries]:
    looks: list[tuple[ArmStyle, str, int]] = [
        (style, arm, 1) for arm, style in result.styles.items() if arms is None or arm in arms
    ]
    control = result.summary.control
    if arms is None:
        looks.insert(1, (copy_style(result.styles[control]), control, 2))
    series = [
        SweepSeries(
            style,
            tuple(
                (step.amount, value, used)
                for step in steps
                for run, value, used in result.values(metric, step.id)
                if (run.arm, run.copy_number) == (arm, copy)
            ),
        )
        for style, arm, copy in looks
    ]
    return [one for one in series if one.points]


def _is_zero(result: StudyResult, metric: str) -> bool:
    """Whether a metric is zero in every run at every step: named instead of drawn."""
    return all(value == 0 for step in result.steps for _, value, _ in result.values(metric, step.id))


def _unit(result: StudyResult, metric: str) -> str:
    known = result.summary.metrics.get(metric)
    return known.unit if known else ""


def _table(
    result: StudyResult,
    metric: str,
    workload: str,
    steps: tuple[ReportStep, ...],
    unit: DisplayUnit,
    only: Collection[str] | None,
) -> Table:
    arms = [arm for arm in result.styles if only is None or arm in only]

    label = f", {unit.label}" if unit.label else ""
    return Table(
        f"{result.metric_name(metric)}{label}, {workload}: mean of the valid runs, least–greatest below",
        [steps[0].amount_name, *arms],
        [[step.amount_text, *(_cell(result, metric, step, arm, unit) for arm in arms)] for step in steps],
    )
