"""The number of each block, from which verdicts are made. For interleaved studies; the control's copy is the A/A."""

from __future__ import annotations

from math import exp

from markupsafe import Markup

from mydyno.language import agreed
from mydyno.model.stored.summary import EffectRecord
from mydyno.reports.charts.block_dots import ArmBlocks, block_dots_chart
from mydyno.reports.charts.palette import copy_style
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Cell, Figure, FigureGroup, Section, Table, legend, render
from mydyno.wording.numbers import signed_percent
from mydyno.wording.stored_result import ReportStep
from mydyno.wording.verdict_table import step_heading


def build(result: StudyResult) -> Section | None:
    """The section, or None for a study of blocks, and where no contrast has a block."""
    if result.summary.design == "blocks":
        return None
    judged = dict.fromkeys(effect.metric for effect in result.summary.effects if effect.verdict)
    metrics = [result.summary.primary, *(metric for metric in judged if metric != result.summary.primary)]
    groups = [
        FigureGroup(result.metric_name(metric), figures)
        for metric in metrics
        if (figures := [figure for step in result.steps if (figure := _figure(result, metric, step))])
    ]
    if not groups:
        return None
    return Section(
        "blocks",
        "Each block's number, and A/A",
        "Blocks",
        render(
            "figures.html",
            intro="A block is one start of every server. Each mark is an arm's effect in one block, over all its "
            "cycles; the verdicts are computed from these numbers, not from the slices. Hollow marks are "
            "the control's second copy against the first (A/A): the differences without any change.",
            legend=legend(result, with_copy=True),
            groups=groups,
            empty="",
        ),
    )


def _figure(result: StudyResult, metric: str, step: ReportStep) -> Figure | None:
    arms = []
    for effect in result.effects(metric, step.id):
        if effect.arm in result.styles and effect.control == result.summary.control:
            shares = _shares(result, effect)
            if shares:
                arms.append(ArmBlocks(result.styles[effect.arm], shares))
    control = result.summary.control
    copies = {block: ratio - 1 for block, ratio in result.block_ratios(metric, step.id, control, 2).items()}
    if copies:
        arms.insert(0, ArmBlocks(copy_style(result.styles[control]), copies))
    if not arms:
        return None
    chart = block_dots_chart(
        f"blocks:{metric}:{step.id}",
        step_heading(result, step),
        agreed(f"{result.metric_name(metric)} of {len(arms)} servers relative to {control}, block by block."),
        arms,
        result.margin_of(metric),
    )
    blocks = sorted({block for arm in arms for block in arm.shares})
    rows: list[list[str | Cell]] = [
        [
            arm.style.label,
            *(Cell(signed_percent(arm.shares[block]) if block in arm.shares else "–", "num") for block in blocks),
        ]
        for arm in arms
    ]
    caption = f"{result.metric_name(metric)}, {step_heading(result, step)}: effect in each block"
    return Figure([Markup(chart)], Table(caption, ["arm", *map(str, blocks)], rows))


def _shares(result: StudyResult, effect: EffectRecord) -> dict[int, float]:
    """{block: effect}, from the summary's details, or else from the runs."""
    logs = effect.details.log_ratios
    if logs is not None:
        return {block: exp(value) - 1 for block, value in logs.items()}
    return {b: ratio - 1 for b, ratio in result.block_ratios(effect.metric, effect.step, effect.arm).items()}
