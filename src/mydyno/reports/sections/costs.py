"""What an operation costs each arm, and what came with the effects: candidates for causes, never causes."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.model.costs import COSTS
from mydyno.model.summary import CostRecord, CostsRecord
from mydyno.reports.costs import (
    NO_CAUSE_SHOWN,
    accompanied,
    change_text,
    contrast,
    interval_text,
    is_there,
    sorted_costs,
    value_text,
)
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Cell, Section, Table, render
from mydyno.results.plain_words import listing


def build(result: StudyResult) -> Section | None:
    """The section; None where no step has counters."""
    record = result.summary.costs
    if record is None or not record.costs or result.before_first_look:
        return None
    contrasts: dict[tuple[str, str, str], list[CostRecord]] = {}
    for one in record.costs:
        contrasts.setdefault((one.arm, one.control, one.step), []).append(one)
    found = accompanied(result, record)
    return Section(
        "costs",
        "What came with it" if found else "What a transaction costs",
        "Costs",
        render(
            "costs.html",
            found=found,
            caution=NO_CAUSE_SHOWN if any(one.named for one in found) else "",
            intro=_intro(record, bool(found)),
            tables=[
                (contrast(result, costs[0]), _table(record, sorted_costs(record, costs)))
                for costs in contrasts.values()
            ],
        ),
        says="CPU time, waits, I/O, rows and calls per transaction of each arm",
    )


def _intro(record: CostsRecord, effects: bool) -> str:
    intro = (
        "Counters of server and kernel divided by the transactions of the same time. "
        "Intervals are simultaneous over all costs of the study."
    )
    if record.alarm:
        return f"{intro} No difference is claimed: {record.alarm}."
    return intro if effects else f"{intro} No effect on throughput is shown, so no cause is looked for."


def _table(record: CostsRecord, costs: Sequence[CostRecord]) -> Table:
    named = {(one.arm, one.control, one.step, one.cost) for one in record.accompaniments}
    rows: list[Sequence[str | Cell]] = []
    for one in filter(is_there, costs):
        css = "num strong" if (one.arm, one.control, one.step, one.cost) in named else "num"
        rows.append(
            [
                COSTS[one.cost].label,
                Cell(value_text(one.cost, one.control_value), "num"),
                Cell(value_text(one.cost, one.arm_value), "num"),
                Cell(change_text(one), css),
                Cell(interval_text(one), "num"),
                "beyond noise" if one.beyond_noise else "",
            ]
        )
    first = costs[0]
    absent = [COSTS[one.cost].label for one in costs if not is_there(one)]
    return Table(
        f"Costs of a transaction: {first.arm} and {first.control}",
        ("cost of a transaction", first.control, first.arm, "change", "interval", ""),
        rows,
        f"None, or next to none, on either side: {listing(absent)}." if absent else "",
    )
