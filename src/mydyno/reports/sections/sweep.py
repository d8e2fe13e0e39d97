"""Each metric against the load: every run as a dot, medians joined; and study 3's bars for QPS and TPS."""

from __future__ import annotations

from collections.abc import Collection
from statistics import median

from markupsafe import Markup

from mydyno.language import names, tr, tr_after
from mydyno.reports.charts.bars import bars_chart
from mydyno.reports.charts.palette import ArmStyle, copy_style
from mydyno.reports.charts.sweep import SweepSeries, sweep_chart
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Cell, Figure, FigureGroup, Section, Table, legend, render, within
from mydyno.wording.numbers import DisplayUnit, display_unit, metric_name
from mydyno.wording.stored_result import ReportStep

FIRST = ("ops", "qps", "tps", "latency_p99_us", "cpu_user_pct", "server_rss_bytes", "server_vsize_bytes")
BARS = ("ops", "qps", "tps", "tpmc")
OTHER_CHARACTERS = 300_000
"""Room for metrics beyond the leading ones."""


def build(result: StudyResult, elsewhere: Collection[str] = ()) -> Section:
    """Per workload: small multiples of the leading metrics, bars, and the other metrics folded.

    What has its charts elsewhere in the page is left out.
    """
    groups = []
    leading = [metric for metric in dict.fromkeys((*FIRST, result.summary.primary)) if metric in result.metrics]
    rest = [metric for metric in result.metrics if metric not in leading and metric not in elsewhere]
    others = [metric for metric in rest if not _is_zero(result, metric)]
    zeros = [result.metric_name(metric) for metric in rest if metric not in others]
    drawn = {metric: _by_workload(result, metric) for metric in others}
    kept, left = within({metric: list(figures.values()) for metric, figures in drawn.items()}, OTHER_CHARACTERS)
    for workload in result.workloads:
        steps = result.steps_of_workload(workload)
        figures = [figure for metric in leading if (figure := metric_figure(result, metric, workload, steps))]
        groups.append(FigureGroup(workload, figures))
        bars = [figure for metric in BARS if (figure := _bars(result, metric, workload, steps))]
        groups.append(FigureGroup(tr("{workload}: bars per arm", workload=workload), bars))
        figures = [drawn[metric][workload] for metric in kept if workload in drawn[metric]]
        groups.append(FigureGroup(tr("{workload}: other metrics", workload=workload), figures, folded=True))
    groups = [group for group in groups if group.figures]
    return Section(
        "connections",
        tr("Each metric against the load"),
        tr("Load"),
        render(
            "figures.html",
            intro=tr(
                "Small dots are runs (each the mean over the measured window, or the window's percentile); "
                "large marks are the medians of the valid runs. Crosses are runs that are not valid."
            )
            + (tr_after("Zero in every run: {metrics}.", metrics=names(zeros)) if zeros else "")
            + (
                tr_after(
                    "Only in csv and json, to limit the size of the page: {metrics}.",
                    metrics=names(map(metric_name, left)),
                )
                if left
                else ""
            ),
            legend=legend(result, with_copy=True),
            groups=groups,
            empty="" if groups else tr("No run has a value yet."),
        ),
    )


def _by_workload(result: StudyResult, metric: str) -> dict[str, Figure]:
    """The metric's figure for every workload that has values of it."""
    return {
        workload: figure
        for workload in result.workloads
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
        tr(
            "{metric} of {workload} at {levels} levels, {arms} arms; the table has them all.",
            metric=result.metric_name(metric),
            workload=workload,
            levels=len(steps),
            arms=len(series),
        ),
        unit,
        series,
        [step.amount for step in steps],
        steps[0].amount_name,
    )
    return Figure([Markup(chart)], _table(result, metric, workload, steps, unit, arms))


def _bars(result: StudyResult, metric: str, workload: str, steps: tuple[ReportStep, ...]) -> Figure | None:
    series = [one for one in _series(result, metric, steps) if not one.style.copy]
    values = [value for one in series for _, value, _ in one.points]
    if not values:
        return None
    unit = display_unit(metric, max(values), _unit(result, metric))
    charts = [
        Markup(
            bars_chart(
                f"bars:{metric}:{workload}{suffix}",
                result.metric_name(metric),
                tr("Medians of the valid runs per arm and level, every run as a dot; {workload}.", workload=workload),
                unit,
                series,
                [step.amount for step in steps],
                width,
                steps[0].amount_name,
            )
        )
        for suffix, width in (("", 560.0), (":narrow", 350.0))
    ]
    return Figure(charts, None, "", "double")


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

    def cell(step: ReportStep, arm: str) -> Cell:
        values = [value for run, value, used in result.values(metric, step.id) if used and run.arm == arm]
        if not values:
            return Cell("–", "num")
        spread = f"{unit.number(min(values))}–{unit.number(max(values))}" if len(values) > 1 else ""
        return Cell(unit.number(median(values), 4), "num", below=spread)

    label = tr(", {unit}", unit=unit.label) if unit.label else ""
    return Table(
        tr(
            "{metric}{label}, {workload}: median of the valid runs, least–greatest below",
            metric=result.metric_name(metric),
            label=label,
            workload=workload,
        ),
        [steps[0].amount_name, *arms],
        [[step.amount_text, *(cell(step, arm) for arm in arms)] for step in steps],
        tr("{control} counts both of its runs in each block.", control=result.summary.control)
        if len(arms) > 1 and result.summary.control in arms
        else "",
    )
