"""A bisection as one self-contained HTML page: the answer, the effects as a forest, the path, how it was decided."""

from __future__ import annotations

from markupsafe import Markup

from mydyno.document.charts.forest import ForestGroup, ForestRow, forest_chart
from mydyno.document.charts.palette import ArmStyle
from mydyno.document.section import Figure, FigureGroup, Section, Table, render
from mydyno.model.stored.bisection import BisectRecord, BisectResult, Comparison
from mydyno.reports.across.pages import Document, page, section
from mydyno.wording import bisection as words
from mydyno.wording.numbers import metric_name

SIZES = (("", 560.0), (":narrow", 350.0))
LOOKS = {"good": (2, "circle"), "bad": (1, "diamond"), "skipped": (0, "cross")}
"""Outcome → colour and marker."""


def bisect_page(record: BisectRecord, result: BisectResult) -> str:
    """The page's text."""
    answer = section("answer", "Answer", "Answer", lead=_answer(record, result))
    path = section("path", "The path", "Path", tables=[Table(*words.path(result))], lists=_reasons(result))
    how = section("how", "How it was decided", "Method", lists=[("", words.notes(record, result))])
    below = f"{record.experiment.name}: {record.experiment.question}"
    chart = [(_chart(record, result), False)] if _measured(result) else []
    sections = [(answer, False), *chart, (path, False), (how, False)]
    return page(Document(words.title(record), "bisection", below, sections))


def _answer(record: BisectRecord, result: BisectResult) -> list[str]:
    command = words.go_on(result)
    return [Markup("<code>{}</code>").format(line) if line == command else line
            for line in words.answer(record, result)]  # fmt: skip


def _reasons(result: BisectResult) -> list[tuple[str, list[str]]]:
    found = words.reasons(result)
    return [("Why commits were skipped", found)] if found else []


def _measured(result: BisectResult) -> list[Comparison]:
    ends = [result.ends.comparison] if result.ends is not None else []
    return [one for one in (*ends, *result.comparisons) if one.ratio is not None]


def _chart(record: BisectRecord, result: BisectResult) -> Section:
    measured = _measured(result)
    rows = tuple(
        ForestRow(
            ArmStyle(one.commit.short, one.commit.short, *LOOKS[one.outcome], ""),
            None if one.ratio is None else one.ratio - 1.0,
            None if one.low is None else one.low - 1.0,
            None if one.high is None else one.high - 1.0,
            word=one.outcome,
        )
        for one in measured
    )
    step = result.ends.step if result.ends is not None else ""
    label = f"{metric_name(record.metric)}{f', {step}' if step else ''}"
    charts = [
        Markup(forest_chart(f"path{suffix}", label, "Effect of each commit relative to the good end, with its interval",
                            [ForestGroup(step or "every step", rows)], None, width))
        for suffix, width in SIZES
    ]  # fmt: skip
    html = render(
        "figures.html", intro="Each row is one commit in the order of the comparisons.", legend="",
        groups=[FigureGroup(label, [Figure(charts, css="double")])], empty="",
    )  # fmt: skip
    return Section("effects", "Effects along the path", "Effects", html)
