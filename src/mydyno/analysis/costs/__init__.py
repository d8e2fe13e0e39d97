"""What an operation costs each arm, and what changed with the effects: candidates for causes, never causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mydyno.analysis.base import Analysis
from mydyno.analysis.costs.per_operation import analyse
from mydyno.analysis.costs.suggested import suggestion
from mydyno.document import counted
from mydyno.document.counted import accounting_sentence
from mydyno.document.parts import Cell, Fold, Listed, Note, Part, Piece, Table
from mydyno.document.result import StudyResult
from mydyno.language import agreed, listing
from mydyno.model.stored.analyses import CandidateRecord
from mydyno.model.stored.costs import COSTS
from mydyno.model.stored.counted import (
    FrameRecord,
    KernelContrast,
    KernelRow,
    ProfileContrast,
    WaitRecord,
    WaitsContrast,
)
from mydyno.model.stored.summary import CostRecord, CostsRecord, EffectRecord
from mydyno.results.why import explained, is_of_latency, is_of_server_cpu
from mydyno.wording.numbers import (
    NARROW_SPACE,
    NONE,
    display_unit,
    ratio_interval,
    signed_percent,
    signed_time,
    significant,
    time_interval,
    time_text,
)
from mydyno.wording.stored_result import StoredResult
from mydyno.wording.verdicts import alarm_clause

FACTOR_FROM = 3.0
"""A ratio from which a change is printed as a factor."""
SHARES = {
    "time": "Shares are of the change in time per transaction.",
    "latency": "Of an effect on latency, shares are of the change in mean response time.",
    "cpu": "Of an effect on the server's CPU time, shares are of the change in that time per transaction.",
}
NO_CAUSE_SHOWN = (
    "Costs that changed together with an effect can be its cause or its consequence: only an experiment that changes "
    "one of them on purpose shows which."
)


@dataclass(frozen=True)
class Accompanied:
    """One shown effect, and the costs that changed with it."""

    heading: str
    sentences: tuple[str, ...]
    named: bool
    """Whether the sentences name costs; otherwise the one sentence states why there are none."""
    kind: str
    """Kind of the effect: a key of SHARES."""
    tests: tuple[str, ...]
    """How to change these costs on purpose."""


def accompanied(result: StoredResult, record: CostsRecord) -> list[Accompanied]:
    """Every effect that is looked at (results/why.py), with the costs that changed with it."""
    found = []
    for effect in explained(result.summary.effects):
        own = [(_named(result, record, of), of) for of in result.summary.candidates if of.contrast == effect.contrast]
        sentences = [sentence for sentence, _ in own if sentence]
        tests = dict.fromkeys(suggestion(result, one) for sentence, one in own if sentence)
        ratio = effect.ratio or 1.0
        found.append(
            Accompanied(
                f"{result.contrast_heading(effect)}: {result.metric_name(effect.metric)} {signed_percent(ratio - 1)}",
                tuple(sentences) or (_nothing(record, effect),),
                bool(sentences),
                "cpu" if is_of_server_cpu(effect) else "latency" if is_of_latency(effect) else "time",
                tuple(filter(None, tests)),
            )
        )
    return found


def caution(found: Sequence[Accompanied]) -> str:
    """What the shares are of, and that no cause is shown; empty where nothing is named."""
    kinds = {one.kind for one in found if one.named}
    words = [of for kind, of in SHARES.items() if kind in kinds]
    return " ".join([*words, NO_CAUSE_SHOWN]) if words else ""


def named_costs(candidates: Sequence[CandidateRecord]) -> dict[tuple[str, str, str, str], int]:
    """{(arm, control, step, cost): rank} of the costs that accompanied an effect."""
    costs = [one for one in candidates if one.kind == "cost"]
    return {(one.arm, one.control, one.step, one.name): at for at, one in enumerate(costs)}


def is_there(one: CostRecord) -> bool:
    """Whether either side has an amount that counts."""
    return max(one.control_value, one.arm_value) >= COSTS[one.cost].least


def value_text(cost: str, value: float) -> str:
    """A cost of one operation with its unit."""
    spec = COSTS[cost]
    if value < spec.least:
        return "0"
    return display_unit(cost, value, spec.unit).text(value, 3 if value >= 1 else 2)


def change_text(one: CostRecord) -> str:
    """The change as a percentage or as a factor, without its interval; of a cost that one side lacks, neither."""
    if _one_side_lacks(one):
        return "–"
    ratio = one.arm_value / one.control_value if one.ratio is None else one.ratio
    if ratio > FACTOR_FROM or ratio < 1 / FACTOR_FROM:
        return f"× {_factor(ratio)}" if ratio > 1 else f"÷ {_factor(1 / ratio)}"
    return signed_percent(ratio - 1)


def interval_text(one: CostRecord) -> str:
    """The interval in the same form as the change."""
    if one.ratio is None or one.ci_low is None or one.ci_high is None or _one_side_lacks(one):
        return "–"
    low, high = one.ci_low, one.ci_high
    if one.ratio > FACTOR_FROM:
        return f"× {_factor(low)} … {_factor(high)}"
    if one.ratio < 1 / FACTOR_FROM:
        return f"÷ {_factor(1 / high)} … {_factor(1 / low)}"
    return ratio_interval(low, high)


def _one_side_lacks(one: CostRecord) -> bool:
    return min(one.control_value, one.arm_value) < COSTS[one.cost].least


def _factor(factor: float) -> str:
    return significant(float(f"{factor:.2g}"), 2)


def _accounted(what: str, found: Sequence[WaitRecord | KernelRow], share: float) -> str:
    """The sentence on the first of them, by its time; empty without one."""
    if not found:
        return ""
    first = found[0]
    change = f"{time_text(first.control_us or 0.0)} → {time_text(first.arm_us or 0.0)}"
    return accounting_sentence(f"{what} {first.label}", change, time_interval(first.low_us, first.high_us), share)


def _named(result: StoredResult, record: CostsRecord, one: CandidateRecord) -> str:
    """The sentence on a candidate; empty where there is none."""
    key = one.step, one.arm, one.control
    summary = result.summary
    if one.kind == "cost":
        costs = [of for of in record.costs if (of.step, of.arm, of.control, of.cost) == (*key, one.name)]
        return _sentence(one, costs[0]) if costs else ""
    if one.kind in ("wait", "stage"):
        events = [of for at in summary.waits.contrasts if _key(at) == key for of in at.events] if summary.waits else []
        found = [of for of in events if (of.name, of.kind) == (one.name, one.kind)]
        return _accounted("The stage" if one.kind == "stage" else "Waits for", found, one.explains)
    if one.kind == "kernel":
        rows = [of for at in summary.kernel.contrasts if _key(at) == key for of in at.rows] if summary.kernel else []
        times = [of for of in rows if of.measure == one.name]
        return _accounted("In the kernel,", times, one.explains)
    contrasts = summary.profiles.contrasts if summary.profiles else ()
    frames = [of for at in contrasts if _key(at) == key for of in at.frames]
    functions = [of for of in frames if (of.function, of.module) == (one.name, one.module)]
    return _function_sentence(functions[0]) if functions else ""


def _key(one: WaitsContrast | KernelContrast | ProfileContrast) -> tuple[str, str, str]:
    return one.step, one.arm, one.control


def _sentence(one: CandidateRecord, cost: CostRecord) -> str:
    spec = COSTS[cost.cost]
    label = spec.label
    change = f"{value_text(cost.cost, cost.control_value)} → {value_text(cost.cost, cost.arm_value)}"
    does, up_to = ("accounts", "about") if one.measured else ("can account", "up to")
    share = "all" if one.explains >= 1 else f"{up_to} {100 * one.explains:.0f}{NARROW_SPACE}%"
    of = "" if _one_side_lacks(cost) else f" ({change_text(cost)})"
    return f"{label[:1].upper()}{label[1:]}: {change} per transaction{of}. This {does} for {share} of the change."


def _function_sentence(one: FrameRecord) -> str:
    interval = time_interval(one.low_us, one.high_us)
    return (
        f"In the CPU profile {one.label} leads: {signed_time(one.change_us)} of CPU time per transaction ({interval})."
    )


def _nothing(record: CostsRecord, effect: EffectRecord) -> str:
    if record.alarm:
        return f"No cost is compared: {alarm_clause(record.alarm)}."
    if is_of_server_cpu(effect):
        return (
            "Whether it is CPU time in user mode or in the kernel is not shown: the intervals of costs are wider than "
            "this effect's, and no function of a profile changed beyond noise."
        )
    return "No counted cost changed beyond noise and far enough to account for this effect."


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
        says=found[0].sentences[0] if len(found) == 1 and found[0].named else "",
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
        kind, value = "num strong" if shown else "num", value_text(name, one.arm_value)
        if _one_side_lacks(one):
            cells.append(Cell(value, kind))
        else:
            below = value if one.ratio is None else f"{interval_text(one)}; {value}"
            cells.append(Cell(change_text(one), kind, below=below))
    return [COSTS[name].label, *cells]


ANALYSIS = Analysis(chapter="why", part=part, comment=comment, stored="costs", analyse=analyse)
