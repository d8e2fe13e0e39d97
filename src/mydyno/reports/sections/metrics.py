"""Every metric in one table: the control's value, and each arm's change with its interval; and, where a workload has
several levels of load, each metric of the published studies against the load.

The order is that of a reader's questions: the metrics of the study's question and the usual ones, then the others by
size over noise, |log effect| / half of its interval on the log scale: above 1 the interval excludes "no effect".
Intervals of metrics without verdicts are not adjusted: of those that did not change, one in twenty excludes it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, log

from mydyno.document.drawing import SweepSeries, sweep_chart
from mydyno.document.parts import Cell, Figure, FigureGroup, Figures, Note, Part, Table, legend
from mydyno.document.result import StudyResult
from mydyno.language import agreed
from mydyno.model.stored.summary import EffectRecord, StepLevel
from mydyno.results.precision import answered_metrics
from mydyno.wording.numbers import NONE, change, display_unit, level_percent, ratio_interval, signed_percent
from mydyno.wording.verdicts import SYMBOLS, absolute, note_of, verdict_text, verdict_word

FIRST = ("ops", "qps", "tps", "latency_p99_us", "cpu_user_pct", "server_rss_bytes", "server_vsize_bytes")
MOST_ROWS = 240
"""In a longer table, metrics beyond the first ones have one load level: that with the largest change against noise."""
NO_NOISE = 1e-12
"""Half of an interval of log ratios that is rounding alone."""

Contrast = tuple[str, str]
"""(arm, control)."""


def build(result: StudyResult) -> Part | None:
    """The section; None where no run has a value yet."""
    metrics = [metric for metric in result.metrics if not _is_zero(result, metric)]
    if not metrics:
        return None
    shown = () if result.before_first_look else tuple(one for one in result.summary.effects if one.arm in result.styles)
    found = {one.contrast: one for one in shown}
    contrasts = list(dict.fromkeys((one.arm, one.control) for one in shown))
    table = _table(result, rows_of(result, metrics, shown), contrasts, found)
    return Part(
        id="metrics", heading=agreed(f"All {len(metrics)} metrics"), says=_in_one_line(shown), folded=True,
        body=[Note(_intro(result, bool(contrasts)), "intro"), table],
    )  # fmt: skip


def _intro(result: StudyResult, compared: bool) -> str:
    zeros = [result.metric_name(metric) for metric in result.metrics if _is_zero(result, metric)]
    notes = [
        "Values are geometric means over the valid runs (of both copies of an arm that has two), arithmetic ones where "
        "a run has 0: then there is no change."
    ]
    if compared:
        notes.append(
            f"Metrics with a verdict have simultaneous {level_percent(result.summary.alpha)} intervals, the others "
            "exploratory ones of 95\u202f%: one in twenty excludes 0 although nothing changed. Bold: the interval "
            "excludes 0."
        )
    if zeros:
        notes.append(f"Zero in every run: {', '.join(zeros)}.")
    return " ".join(notes)


def _in_one_line(effects: Sequence[EffectRecord]) -> str:
    """How many metrics changed with any arm."""
    changed = {one.metric for one in effects if one.excludes_no_change}
    compared = {one.metric for one in effects if one.ratio is not None}
    return agreed(f"{len(changed)} of {len(compared)} metrics changed with an arm") if compared else ""


def size_over_noise(effect: EffectRecord) -> float:
    """|log effect| / half of its interval; infinite for an effect that is the same in every block; 0 without one."""
    if not (effect.ratio and effect.ci_low and effect.ci_high):
        return 0.0
    size, half = abs(log(effect.ratio)), log(effect.ci_high / effect.ci_low) / 2
    if half > NO_NOISE:
        return size / half
    return inf if size > NO_NOISE else 0.0


def rows_of(
    result: StudyResult, metrics: Sequence[str], effects: Sequence[EffectRecord], most: int = MOST_ROWS
) -> list[tuple[str, StepLevel]]:
    """(metric, step) of each row in order; of more than `most` the further metrics lose all levels but one."""
    strength: dict[tuple[str, str], float] = {}
    for one in effects:
        key = (one.metric, one.step)
        strength[key] = max(strength.get(key, 0.0), size_over_noise(one))

    def strongest(metric: str) -> float:
        return max((strength.get((metric, step.id), 0.0) for step in result.steps), default=0.0)

    first = [one for one in dict.fromkeys((*answered_metrics(result.summary), *FIRST)) if one in metrics]
    others = sorted((one for one in metrics if one not in first), key=strongest, reverse=True)
    every = [(metric, step) for metric in (*first, *others) for step in result.steps if _known(result, metric, step)]
    if len(every) <= most:
        return every
    chosen: dict[str, StepLevel] = {}
    for metric, step in every:
        if metric not in chosen or strength.get((metric, step.id), 0.0) > strength.get(
            (metric, chosen[metric].id), 0.0
        ):
            chosen[metric] = step
    return [(metric, step) for metric, step in every if metric in first or chosen[metric] == step]


def _known(result: StudyResult, metric: str, step: StepLevel) -> bool:
    return next(result.values(metric, step.id), None) is not None


def _is_zero(result: StudyResult, metric: str) -> bool:
    """Whether a metric is zero in every run at every step: named, not shown."""
    return all(value == 0 for step in result.steps for _, value, _ in result.values(metric, step.id))


def _table(
    result: StudyResult,
    places: Sequence[tuple[str, StepLevel]],
    contrasts: Sequence[Contrast],
    found: dict[tuple[str, str, str, str], EffectRecord],
) -> Table:
    """A column for the control and for each contrast; without effects each arm's values."""
    control, several = result.summary.control, len(result.steps) > 1
    rows: list[Sequence[str | Cell]] = []
    for metric, step in places:
        cells = [Cell(_value(result, metric, step, control), "num")]
        if contrasts:
            cells += [_cell(result, metric, step, found.get((metric, step.id, *contrast))) for contrast in contrasts]
        else:
            cells += [Cell(_value(result, metric, step, arm), "num") for arm in result.styles if arm != control]
        where = [result.step_heading(step)] if several else []
        rows.append([result.metric_name(metric), *where, *cells])
    names = [arm if of == control else f"{arm} against {of}" for arm, of in contrasts]
    head = [
        "metric",
        *(["load level"] if several else []),
        control,
        *(names or [a for a in result.styles if a != control]),
    ]
    caption = f"Values of {control}, and changes relative to it" if contrasts else "Values of each arm"
    return Table(caption, head, rows, sortable=True)


def _value(result: StudyResult, metric: str, step: StepLevel, arm: str) -> str:
    return absolute(result, metric, step.id, arm, digits=4)


def _cell(result: StudyResult, metric: str, step: StepLevel, effect: EffectRecord | None) -> Cell:
    """The change; below it the interval, the arm's value, and what limits the verdict."""
    if effect is None:
        return Cell(NONE, "num")
    word, note = verdict_word(result, effect), note_of(effect, result.study.experiment.verdict.margin_of(effect.metric))
    sign, share = f"{SYMBOLS[word]} " if word else "", change(effect.ratio)
    css = f"num{' strong' if effect.excludes_no_change else ''}{' noted' if note else ''}"
    if share is None:
        return Cell(verdict_text(result, effect) or NONE, css, sign, note)
    interval = ratio_interval(effect.ci_low, effect.ci_high)
    below = "; ".join(filter(None, (interval, _value(result, metric, step, effect.arm), note)))
    return Cell(signed_percent(share), css, sign, below)


INTRO = (
    "Small dots are runs, large marks their geometric means, crosses runs that are not valid. The values are in the "
    "table of all metrics."
)


def build_sweep(result: StudyResult) -> Part | None:
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


def metric_figure(
    result: StudyResult, metric: str, workload: str, steps: tuple[StepLevel, ...], ceilings: Mapping[str, float] = {}
) -> Figure | None:
    """A metric against the level of load; None if no run has a value. `ceilings`: see sweep_chart."""
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
        ceilings=ceilings,
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
