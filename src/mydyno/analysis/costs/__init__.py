"""What an operation costs each arm, and what changed with the effects: candidates for causes, never causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mydyno.analysis.base import Analysis
from mydyno.analysis.costs.per_operation import analyse
from mydyno.analysis.costs.words import (
    Accompanied,
    accompanied,
    caution,
    change_text,
    interval_text,
    is_there,
    named_costs,
    value_text,
)
from mydyno.document import counted
from mydyno.document.parts import Fold, Listed, Note, Part, Piece
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Table
from mydyno.language import agreed, listing
from mydyno.model.stored.costs import COSTS
from mydyno.model.stored.summary import CostRecord, CostsRecord
from mydyno.wording.numbers import NONE
from mydyno.wording.reasons import alarm_clause

HEADING = "Costs that changed with the effect"
Contrast = tuple[str, str]
"""(arm, control)."""


def part(result: StudyResult) -> Part | None:
    """The section; None where no step has counters."""
    record = result.summary.costs
    if record is None or not record.costs or result.before_first_look:
        return None
    found = accompanied(result, record)
    beyond = {one.cost for one in record.costs if one.beyond_noise}
    return Part(
        id="costs", heading=HEADING if found else "What a transaction costs",
        body=[
            *_found(found), Note(_intro(record, bool(found), result), "intro"),
            Fold(agreed(f"Costs of a transaction: {len(beyond)} changed beyond noise"), [_table(result, record)]),
        ],
    )  # fmt: skip


def comment(result: StudyResult) -> Part | None:
    """Costs that changed with the effects; None where no such effect is shown."""
    record = result.summary.costs
    found = accompanied(result, record) if record is not None and not result.before_first_look else []
    return Part(id="costs", heading=HEADING, body=_found(found)) if found else None


def _found(found: Sequence[Accompanied]) -> list[Piece | None]:
    """Each effect with what changed with it and how to test that, and what all this shows."""
    lists = []
    for one in found:
        heading = f"{one.heading}, accompanied by" if one.named else one.heading
        lists.append(Listed([*one.sentences, *one.tests], heading))
    return [*lists, Note(caution(found))]


def _intro(record: CostsRecord, effects: bool, result: StudyResult) -> str:
    intro = "Counters of server and kernel divided by the transactions of the same time."
    intro += " " + counted.together(result)
    if record.alarm:
        return intro + f" No difference is claimed: {alarm_clause(record.alarm)}."
    if effects:
        return intro
    return intro + " No effect on throughput, latency or the server's CPU time is shown, so no cause is looked for."


def _table(result: StudyResult, record: CostsRecord) -> Table:
    """A row for each cost of each step, a column for the control and each arm; what changed with an effect first."""
    contrasts = list(dict.fromkeys((one.arm, one.control) for one in record.costs))
    rank = named_costs(result.summary.candidates)
    rows: list[Sequence[str | Cell]] = []
    there: set[str] = set()
    for step in result.steps:
        of_step: dict[str, dict[Contrast, CostRecord]] = {}
        for one in record.costs:
            if one.step == step.id:
                of_step.setdefault(one.cost, {})[one.arm, one.control] = one
        names = [name for name in COSTS if any(map(is_there, of_step.get(name, {}).values()))]
        names.sort(key=lambda name: _place(rank, list(of_step[name].values())))
        if names and len(result.steps) > 1:
            rows.append([result.step_heading(step)])
        rows += [_row(result, name, contrasts, of_step[name], rank) for name in names]
        there.update(names)
    absent = [COSTS[one].label for one in dict.fromkeys(one.cost for one in record.costs) if one not in there]
    control = result.summary.control
    head = ("cost of a transaction", control, *(a if c == control else f"{a} against {c}" for a, c in contrasts))
    note = "Bold: the interval excludes no change; below it are interval and value."
    if absent:
        note += f" None, or almost none, in all arms: {listing(absent)}."
    return Table("Costs of a transaction, those that changed first", head, rows, note)


def _place(rank: Mapping[tuple[str, str, str, str], int], costs: Sequence[CostRecord]) -> tuple[int, bool]:
    """What accompanied an effect first, then what changed; the rest in the usual order."""
    named = min(rank.get((one.arm, one.control, one.step, one.cost), len(rank)) for one in costs)
    return named, not any(one.beyond_noise for one in costs)


def _row(
    result: StudyResult,
    name: str,
    contrasts: Sequence[Contrast],
    costs: Mapping[Contrast, CostRecord],
    rank: Mapping[tuple[str, str, str, str], int],
) -> list[str | Cell]:
    base = next((one for one in costs.values() if one.control == result.summary.control), None)
    cells = [Cell(value_text(name, base.control_value) if base else NONE, "num")]
    for contrast in contrasts:
        one = costs.get(contrast)
        if one is None:
            cells.append(Cell(NONE, "num"))
            continue
        shown = one.beyond_noise or (one.arm, one.control, one.step, one.cost) in rank
        below = f"{interval_text(one)}; {value_text(name, one.arm_value)}"
        cells.append(Cell(change_text(one), "num strong" if shown else "num", below=below))
    return [COSTS[name].label, *cells]


ANALYSIS = Analysis(chapter="why", part=part, comment=comment, stored="costs", analyse=analyse)
