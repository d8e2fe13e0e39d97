"""What an operation costs each arm, and what changed with the effects: candidates for causes, never causes."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.language import listing
from mydyno.model.stored.candidates import CandidateRecord
from mydyno.model.stored.costs import COSTS
from mydyno.model.stored.summary import CostRecord, CostsRecord
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Cell, Section, Table, render
from mydyno.wording import counted
from mydyno.wording.costs import (
    accompanied,
    caution,
    change_text,
    contrast,
    interval_text,
    is_there,
    named_costs,
    sorted_costs,
    value_text,
)
from mydyno.wording.reasons import alarm_clause


def build(result: StudyResult) -> Section | None:
    """The section; None where no step has counters."""
    record = result.summary.costs
    if record is None or not record.costs or result.before_first_look:
        return None
    contrasts: dict[tuple[str, str, str], list[CostRecord]] = {}
    for one in record.costs:
        contrasts.setdefault((one.arm, one.control, one.step), []).append(one)
    found = accompanied(result, record)
    candidates = result.summary.candidates
    return Section(
        "costs",
        "Costs that changed with the effect" if found else "What a transaction costs",
        "Costs",
        render(
            "costs.html",
            found=found,
            caution=caution(found),
            intro=_intro(record, bool(found), result),
            tables=[
                (
                    contrast(result, costs[0]),
                    _table(candidates, sorted_costs(candidates, costs)),
                )
                for costs in contrasts.values()
            ],
        ),
        says="CPU time, waits, I/O, rows and calls per transaction of each arm",
    )


def _intro(record: CostsRecord, effects: bool, result: StudyResult) -> str:
    intro = "Counters of server and kernel divided by the transactions of the same time."
    intro += " " + counted.together(result)
    if record.alarm:
        return intro + f" No difference is claimed: {alarm_clause(record.alarm)}."
    if effects:
        return intro
    return intro + " No effect on throughput, latency or the server's CPU time is shown, so no cause is looked for."


def _table(candidates: Sequence[CandidateRecord], costs: Sequence[CostRecord]) -> Table:
    named = named_costs(candidates)
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
        f"None, or almost none, in both arms: {listing(absent)}." if absent else "",
    )
