"""The capacity of each arm of a search: the load at which half of the slices meet the objective.

The unit is the block, as everywhere: the slices of one start give one capacity (results/values/interleaved.py), which
enters the verdicts like any other metric of a run; here it gets an interval over blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from statistics import median

from mydyno.analysis.base import Analysis, Examined
from mydyno.document.drawing import ArmStyle, Linear, Svg, value_frame
from mydyno.document.parts import Cell, Figure, FigureGroup, Figures, Note, Part, Table, legend
from mydyno.document.result import StudyResult
from mydyno.language import agreed
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.special_steps import CAPACITIES
from mydyno.model.stored.analyses import CapacityRecord
from mydyno.model.stored.records import SliceRecord
from mydyno.model.stored.summary import EffectRecord, Summary
from mydyno.results.values.interleaved import Starts, outcomes_of, starts_of
from mydyno.stats.capacity import estimates
from mydyno.stats.paired import paired
from mydyno.wording.numbers import NONE, DisplayUnit, change_words, percent, rate_words
from mydyno.wording.verdicts import lost_blocks, recorded_failure


@dataclass(frozen=True, slots=True)
class Offered:
    """One slice: its block, its load, and whether the objective was met."""

    block: int
    level: float
    met: bool
    title: str


def search_chart(
    key: str,
    heading: str,
    description: str,
    style: ArmStyle,
    slices: Sequence[Offered],
    of_block: dict[int, float],
    unit: str = "1/s",
) -> str:
    """The chart of one arm; `of_block` are the capacities that its blocks gave, drawn over their slices."""
    svg = Svg(key, 356, 200, heading, description)
    frame = value_frame(svg, DisplayUnit(1.0, unit), [one.level for one in slices], heading, count=4)
    x = Linear(0.5, len(slices) + 0.5, frame.left, frame.right)
    begun = 0
    svg.open_group(style.css)
    for number, block in enumerate(dict.fromkeys(one.block for one in slices)):
        count = sum(one.block == block for one in slices)
        start, end = x(begun + 0.5), x(begun + count + 0.5)
        if number % 2 == 0:
            svg.rect(start, frame.top, end - start, frame.bottom - frame.top, "stripe")
        svg.text((start + end) / 2, frame.bottom + 15, str(block), "t num", "middle")
        if block in of_block:
            svg.line(start, frame.y(of_block[block]), end, frame.y(of_block[block]), "line")
        begun += count
    for place, one in enumerate(slices, 1):
        svg.titled_mark("circle", x(place), frame.y(one.level), 2.6, "mark" if one.met else "ring", one.title)
    svg.close_group()
    svg.text((frame.left + frame.right) / 2, svg.height - 5, "block (slices in order)", "t soft", "middle")
    return svg.render()


UNITS = {"rate": "transactions/s", "connections": "connections"}
MOST_ARMS = 4
"""Named one by one in a sentence; the table has all."""
REASONS = {
    "latency": "latency",
    "throughput": "a growing backlog",
    "errors": "errors",
    "unfinished": "transactions that did not end",
}


def analyse(study: Examined) -> tuple[CapacityRecord, ...]:
    """Every step and arm of a search; empty without a search."""
    own = study.used_slices
    found = []
    for step in study.experiment.resolved_steps:
        if step.search is None:
            continue
        starts = starts_of(own, step.id)
        if not starts:
            continue
        _, sigma = estimates([outcomes_of(one) for one in starts.values()], [arm for _, arm, _ in starts])
        logs = study.logs(CAPACITIES[step.search.of], step.id)
        for arm in study.experiment.arms:
            of_arm = {lane: one for lane, one in starts.items() if lane[1] == arm.name}
            of_block = {block: of[arm.name] for block, of in logs.items() if arm.name in of}
            record = _record(step, arm.name, of_arm, of_block, sigma, study.alpha)
            if record is not None:
                found.append(record)
    return tuple(found)


def _record(
    step: Step, arm: str, starts: Starts, of_block: Mapping[int, float], sigma: float, alpha: float
) -> CapacityRecord | None:
    """`of_block`: logs of the capacity."""
    if not of_block or step.search is None:
        return None
    logs = list(of_block.values())
    interval = paired(logs, 1 - alpha).interval
    slices = [one for of_start in starts.values() for one in of_start]
    searches = [one.search for one in slices if one.search is not None]
    capacity = exp(sum(logs) / len(logs))
    return CapacityRecord(
        step=step.id,
        arm=arm,
        metric=step.search.metric,
        limit_us=step.search.limit_us,
        of=step.search.of,
        capacity=capacity,
        tps=_tps_at(round(capacity), slices) if step.search.of == "connections" else None,
        ci_low=interval.low,
        ci_high=interval.high,
        blocks=len(of_block),
        slices=len(searches),
        sigma=sigma,
        of_block={block: exp(value) for block, value in of_block.items()},
        unbracketed=sum(len({one.met for one in outcomes_of(of_start)}) < 2 for of_start in starts.values()),
        missed_by=dict(Counter(one.because for one in searches if one.because)),
    )


def _tps_at(connections: int, slices: Sequence[SliceRecord]) -> float | None:
    """The median throughput of the slices with so many connections; None without any."""
    found = [
        one.done_transactions / one.length_s
        for one in slices
        if one.search is not None and one.search.connections == connections and one.length_s > 0
    ]
    return median(found) if found else None


def level_words(record: CapacityRecord, level: float) -> str:
    """A load: a rate, or a whole number of connections."""
    return f"{round(level):,}" if record.of == "connections" else rate_words(level)


def sustained(record: CapacityRecord) -> str:
    """E.g. "12,300 transactions/s (11,900 to 12,800)", or "7 connections (6 to 8), 1,650 transactions/s"."""
    words = f"{level_words(record, record.capacity)} {UNITS[record.of]}"
    ends = [level_words(record, end) for end in (record.ci_low, record.ci_high) if end is not None]
    if len(set(ends)) > 1:
        words += f" ({' to '.join(ends)})"
    return agreed(words if record.tps is None else f"{words}, {rate_words(record.tps)} transactions/s")


def objective_words(record: CapacityRecord) -> str:
    """E.g. "p99 ≤ 20 ms"."""
    name = record.metric.removeprefix("latency_").removesuffix("_us").replace("p999", "p99.9")
    return f"{'mean latency' if name == 'mean' else name} ≤ {record.limit_us / 1e3:g} ms"


def say(summary: Summary, metric: str) -> list[str]:
    """One sentence on the control at each step, and one on the arms."""
    if metric != summary.primary:
        return []
    found = []
    several = len({record.step for record in summary.capacities}) > 1
    for step in summary.steps:
        records = {record.arm: record for record in summary.capacities if record.step == step.id}
        if not records:
            continue
        metric = CAPACITIES[next(iter(records.values())).of]
        effects = [one for one in summary.effects if (one.metric, one.step) == (metric, step.id) and one.verdict]
        where = f" ({step.workload}, {step.level})" if several else ""
        control = records.get(summary.control)
        if control is not None:
            found.append(f"{summary.control} sustains {sustained(control)} under {objective_words(control)}{where}.")
        arms = [_arm(effect, records.get(effect.arm)) for effect in effects]
        if len(arms) > MOST_ARMS:
            decided = [one for one in effects if one.verdict in ("higher", "lower")]
            strongest = sorted(decided, key=lambda one: -abs((one.ratio or 1.0) - 1.0))[:MOST_ARMS]
            arms = [_arm(effect, records.get(effect.arm)) for effect in strongest]
            rest = len(effects) - len(arms)
            arms += [agreed(f"{rest} other arms are in the table")] if rest else []
        if arms:
            found.append(f"{'; '.join(arms)}.")
    return found


def _arm(effect: EffectRecord, record: CapacityRecord | None) -> str:
    """One arm against its control, by its verdict."""
    if effect.ratio is None or record is None:
        lost = lost_blocks(effect.details)
        reason = recorded_failure(effect) or (lost[0] if lost else "no capacity found")
        return f"{effect.arm} is not measurable: {reason}"
    change = change_words(effect.ratio, effect.ci_low, effect.ci_high)
    begin = f"{effect.arm} sustains {sustained(record)}"
    if effect.verdict in ("higher", "lower"):
        return f"{begin}, {change} against {effect.control}"
    if effect.verdict == "equivalent":
        return f"{begin}, equivalent to {effect.control}: {change}"
    return f"{begin}; the difference to {effect.control}, {change}, is inconclusive"


def part(result: StudyResult) -> Part | None:
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
    intro = (
        "The capacity is the load at which half of the slices meet the objective. Each mark is a slice at the load "
        "that it had: filled if it met the objective, hollow if it missed it. Lines are the capacities of the blocks. "
        "The control's second copy is not drawn."
    )
    drawn = Figures(groups, legend(result, with_copy=False))
    said = say(result.summary, result.summary.primary) if len(groups) == 1 else []
    return Part(id="capacity", heading="Capacity", says=" ".join(said[-1:]), body=[Note(intro, "intro"), drawn])


def _table(records: list[CapacityRecord]) -> Table:
    rows: list[list[str | Cell]] = []
    for one in records:
        interval = ""
        if one.ci_low is not None and one.ci_high is not None:
            interval = f"{level_words(one, one.ci_low)} … {level_words(one, one.ci_high)}"
        missed = ", ".join(f"{REASONS.get(name, name)} ({count})" for name, count in one.missed_by.items())
        blocks = str(one.blocks) + (
            agreed(f" ({one.unbracketed} starts without a capacity)") if one.unbracketed else ""
        )
        rows.append([
            one.arm,
            Cell(level_words(one, one.capacity), "num", below=interval),
            *([] if one.of == "rate" else [Cell(NONE if one.tps is None else rate_words(one.tps), "num")]),
            Cell(blocks, "num"),
            Cell(str(one.slices), "num"),
            Cell(missed or "–"),
        ])  # fmt: skip
    unit = UNITS[records[0].of]
    more = [] if records[0].of == "rate" else ["transactions/s"]
    return Table(
        f"Capacity in {unit}, with the interval of each arm alone",
        ["arm", unit, *more, "blocks", "slices", "slices missed the objective by"],
        rows,
        f"The capacity varies from slice to slice with a standard deviation of {percent(records[0].sigma)}.",
    )


def _chart(result: StudyResult, record: CapacityRecord) -> Figure | None:
    own = [one for one in result.used_slices(record.step) if (one.arm, one.copy_number) == (record.arm, 1)]
    offered = [
        Offered(
            one.block,
            one.search.level,
            one.search.met,
            f"{level_words(record, one.search.level)} {UNITS[record.of]}: "
            + ("met" if one.search.met else f"missed by {one.search.because}"),
        )
        for one in own
        if one.search is not None
    ]
    if not offered:
        return None
    met = sum(one.met for one in offered)
    chart = search_chart(
        f"search:{record.step}:{record.arm}",
        f"{record.arm}: load of each slice",
        agreed(f"{len(offered)} slices of {record.arm}, {met} of which met the objective."),
        result.styles[record.arm],
        offered,
        record.of_block,
        "1/s" if record.of == "rate" else "",
    )
    return Figure([chart])


ANALYSIS = Analysis(chapter="answer", part=part, stored="capacities", analyse=analyse, say=say)
