"""The capacity of each arm of a search: a table, and every slice with its rate and whether it met the objective."""

from __future__ import annotations

from markupsafe import Markup

from mydyno.document.charts.search import Offered, search_chart
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Figure, FigureGroup, Section, Table, legend, render
from mydyno.language import agreed
from mydyno.model.stored.capacity import CapacityRecord
from mydyno.wording.capacity import objective_words, rate_words
from mydyno.wording.numbers import percent

REASONS = {
    "latency": "latency",
    "throughput": "a growing backlog",
    "errors": "errors",
    "unfinished": "transactions that did not end",
}


def build(result: StudyResult) -> Section | None:
    """None if the study searches nothing, or found nothing."""
    records = result.summary.capacities
    if not records:
        return None
    groups = []
    for step in result.steps:
        own = [record for record in records if record.step == step.id]
        if own:
            figures = [Figure([], _table(own), "", "full", numbers_open=True)]
            figures += [figure for record in own if (figure := _chart(result, record)) is not None]
            groups.append(FigureGroup(", ".join((step.workload, step.level, objective_words(own[0]))), figures))
    return Section(
        "capacity",
        "Capacity",
        "Capacity",
        render(
            "figures.html",
            intro="The capacity is the rate at which half of the slices meet the objective. Each mark is a slice "
            "at the rate that it was offered: filled if it met the objective, hollow if it missed it. Lines "
            "are the capacities of the blocks. The control's second copy is not drawn.",
            legend=legend(result, with_copy=False),
            groups=groups,
            empty="",
        ),
    )


def _table(records: list[CapacityRecord]) -> Table:
    rows: list[list[str | Cell]] = []
    for one in records:
        interval = ""
        if one.ci_low is not None and one.ci_high is not None:
            interval = f"{rate_words(one.ci_low)} … {rate_words(one.ci_high)}"
        missed = ", ".join(f"{REASONS.get(name, name)} ({count})" for name, count in one.missed_by.items())
        blocks = str(one.blocks) + (
            agreed(f" ({one.unbracketed} starts without a capacity)") if one.unbracketed else ""
        )
        rows.append([
            one.arm,
            Cell(rate_words(one.capacity_tps), "num", below=interval),
            Cell(blocks, "num"),
            Cell(str(one.slices), "num"),
            Cell(missed or "–"),
        ])  # fmt: skip
    return Table(
        "Capacity in transactions/s, with the interval of each arm alone",
        ["arm", "transactions/s", "blocks", "slices", "slices missed the objective by"],
        rows,
        f"The capacity varies from slice to slice with a standard deviation of {percent(records[0].sigma)}.",
    )


def _chart(result: StudyResult, record: CapacityRecord) -> Figure | None:
    own = [one for one in result.slices.of_step(record.step) if (one.arm, one.copy_number) == (record.arm, 1)]
    offered = [
        Offered(
            one.block,
            one.search.rate,
            one.search.met,
            f"{rate_words(one.search.rate)}/s: " + ("met" if one.search.met else f"missed by {one.search.because}"),
        )
        for one in own
        if one.search is not None
    ]
    if not offered:
        return None
    met = sum(one.met for one in offered)
    chart = search_chart(
        f"search:{record.step}:{record.arm}",
        f"{record.arm}: rate of each slice",
        agreed(f"{len(offered)} slices of {record.arm}, {met} of which met the objective."),
        result.styles[record.arm],
        offered,
        record.of_block,
    )
    return Figure([Markup(chart)])
