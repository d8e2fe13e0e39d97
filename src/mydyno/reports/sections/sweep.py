"""Each metric of the published studies against the load, where a workload has several levels of load."""

from __future__ import annotations

from mydyno.document.charts.sweep import SweepSeries, sweep_chart
from mydyno.document.parts import Figures, Note, Part
from mydyno.document.result import StudyResult
from mydyno.document.section import Figure, FigureGroup, legend
from mydyno.language import agreed
from mydyno.model.stored.summary import StepLevel
from mydyno.reports.sections.metrics import FIRST
from mydyno.wording.numbers import display_unit

INTRO = (
    "Small dots are runs, large marks their geometric means, crosses runs that are not valid. The values are in the "
    "table of all metrics."
)


def build(result: StudyResult) -> Part | None:
    """Small multiples of the leading metrics for each workload; None where each has one level."""
    leading = [metric for metric in dict.fromkeys((*FIRST, result.summary.primary)) if metric in result.metrics]
    groups = []
    for workload in result.workloads:
        steps = result.steps_of_workload(workload)
        if len(steps) > 1:
            figures = [figure for metric in leading if (figure := metric_figure(result, metric, workload, steps))]
            groups.append(FigureGroup(workload, figures))
    drawn = Figures(groups, legend(result, with_copy=True))
    found = Part(id="connections", heading="Each metric against the load", body=[Note(INTRO, "intro"), drawn])
    return found if drawn else None


def metric_figure(result: StudyResult, metric: str, workload: str, steps: tuple[StepLevel, ...]) -> Figure | None:
    """A metric against the level of load; None if no run has a value."""
    series = _series(result, metric, steps)
    values = [value for one in series for _, value, _ in one.points]
    if not values:
        return None
    known = result.summary.metrics.get(metric)
    unit = display_unit(metric, max(abs(value) for value in values), known.unit if known else "")
    chart = sweep_chart(
        f"sweep:{metric}:{workload}",
        result.metric_name(metric),
        agreed(f"{result.metric_name(metric)} of {workload} at {len(steps)} levels, {len(series)} arms."),
        unit,
        series,
        [step.amount for step in steps],
        steps[0].amount_name,
    )
    return Figure([chart])


def _series(result: StudyResult, metric: str, steps: tuple[StepLevel, ...]) -> list[SweepSeries]:
    order = list(result.styles)
    looks = sorted(result.lane_styles.items(), key=lambda of: order.index(of[0][0]))
    series = [
        SweepSeries(
            style,
            tuple(
                (step.amount, value, used)
                for step in steps
                for run, value, used in result.values(metric, step.id)
                if (run.arm, run.copy_number) == lane
            ),
        )
        for lane, style in looks
    ]
    return [one for one in series if one.points]
