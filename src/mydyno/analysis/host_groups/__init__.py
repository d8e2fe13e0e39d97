"""The host groups of a study: what differs between their hosts, and each contrast on each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp

from mydyno.analysis.base import Analysis
from mydyno.analysis.host_groups.effects import analyse
from mydyno.analysis.host_groups.words import (
    difference_words,
    facts_rows,
    likeness,
    overall,
    plain_words,
)
from mydyno.document.charts.forest import ForestGroup, ForestRow, forest_charts
from mydyno.document.parts import Figures, Note, Part
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Figure, FigureGroup, Table
from mydyno.model.stored.summary import FEWEST_HOSTS, HostGroupEffect, HostGroupsRecord, HostsEffect
from mydyno.results.precision import cost_metric
from mydyno.wording.numbers import NONE, ratio_interval, signed_percent

OPEN_ROWS = 40
"""A table of more rows is folded below its chart."""


def part(result: StudyResult) -> Part | None:
    """The section; None for a study of one host group."""
    groups = result.summary.host_groups
    if groups is None:
        return None
    shown = () if result.before_first_look else groups.effects
    metrics = dict.fromkeys(effect.metric for effect in shown)
    first = [name for name in (result.summary.primary, cost_metric(result.summary)) if name in metrics]
    figures = [
        FigureGroup(
            result.metric_name(metric),
            [_figure(result, metric, [one for one in shown if one.metric == metric])],
            folded=metric not in first,
        )
        for metric in (*first, *(metric for metric in metrics if metric not in first))
    ]
    words = plain_words(result, groups) if shown else ()
    body = [*words, Note(likeness(result, groups), "intro"), _differences(groups), Figures(figures)]
    note = Note(_note(groups) if figures else "")
    return Part(id="hosts", heading=f"Hosts ({len(groups.blocks)})", short="Hosts", body=[*body, note])


def _differences(groups: HostGroupsRecord) -> Table | None:
    rows = facts_rows(groups)
    if not rows:
        return None
    return Table("What differs between the server hosts", ("fact", "value", "hosts"), rows, look="facts")


def _note(groups: HostGroupsRecord) -> str:
    note = (
        "Intervals of single hosts are their own 95 % intervals, not adjusted. “These hosts” is the mean over "
        "them, with equal weights, as in the answer."
    )
    if len(groups.blocks) < FEWEST_HOSTS:
        return note + " Two hosts support no claim about others."
    return note + (
        " “Hosts like these” is an interval over the hosts' means, adjusted for the number of comparisons: "
        "it is wider the more the hosts differ, and assumes that they are a fair sample."
    )


def _figure(result: StudyResult, metric: str, effects: Sequence[HostsEffect]) -> Figure:
    shown = [one for one in effects if one.arm in result.styles]
    chart_groups = [ForestGroup(result.contrast_heading(one), _rows(result, one)) for one in shown]
    title = f"{result.metric_name(metric)}: effect of each arm on each host"
    described = "The table that follows has the same numbers."
    charts = forest_charts(f"hosts:{metric}", title, described, chart_groups, result.margin_of(metric))
    table = _effects_table(result, metric, shown)
    return Figure(charts, table, "", "double", numbers_open=len(table.rows) <= OPEN_ROWS)


def _effects_table(result: StudyResult, metric: str, effects: Sequence[HostsEffect]) -> Table:
    rows: list[Sequence[str | Cell]] = []
    for one in effects:
        rows.append([": ".join(filter(None, (result.contrast_heading(one), difference_words(one))))])
        rows += [_table_row(group) for group in one.groups]
        effect = result.effect_of(one)
        rows += [_overall_row(*row, effect.n if effect else 0) for row in overall(result, one)]
    head = ("host", "effect", "interval", "blocks")
    caption = f"{result.metric_name(metric)} relative to {result.relative_to}, on each host"
    return Table(caption, head, rows)


def _rows(result: StudyResult, one: HostsEffect) -> tuple[ForestRow, ...]:
    """A row for each host, then one for these hosts and, where there is an interval, one for hosts like these."""
    style = result.styles[one.arm]
    small = replace(style, shape="circle")
    logs = _logs(result, one)
    rows = [
        ForestRow.of(
            replace(small, name=of.group), of.ratio, of.ci_low, of.ci_high, blocks=logs.get(of.group, ())
        )
        for of in one.groups
    ]  # fmt: skip
    effect = result.effect_of(one)
    if effect is not None and effect.ratio is not None:
        mean = replace(style, name="these hosts", shape="diamond")
        rows.append(ForestRow.of(mean, effect.ratio, effect.ci_low, effect.ci_high, word="mean of hosts"))
        if one.hosts_low is not None:
            like = replace(style, name="hosts like these", shape="bar")
            rows.append(ForestRow.of(like, effect.ratio, one.hosts_low, one.hosts_high))
    return tuple(rows)


def _logs(result: StudyResult, one: HostsEffect) -> dict[str, tuple[float, ...]]:
    """{host group: the effect of each of its blocks}."""
    effect = result.effect_of(one)
    logs = (effect.details.log_ratios or {}) if effect is not None else {}
    found: dict[str, tuple[float, ...]] = {}
    for block, value in logs.items():
        group = result.group_of.get(block, "")
        found[group] = (*found.get(group, ()), exp(value) - 1.0)
    return found


def _table_row(group: HostGroupEffect) -> list[str | Cell]:
    return [
        Cell(group.group),
        Cell("–" if group.ratio is None else signed_percent(group.ratio - 1.0), "num"),
        Cell(ratio_interval(group.ci_low, group.ci_high) or NONE, "num"),
        Cell(str(group.n), "num"),
    ]


def _overall_row(name: str, ratio: float | None, text: str, blocks: int) -> list[str | Cell]:
    effect = "" if ratio is None else signed_percent(ratio - 1.0)
    return [Cell(name), Cell(effect, "num strong"), Cell(text, "num"), Cell(str(blocks) if effect else "", "num")]


ANALYSIS = Analysis(chapter="answer", part=part, comment=part, stored="host_groups", analyse=analyse)
