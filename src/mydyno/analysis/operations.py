"""How long each kind of transaction takes: the types of TPC-C, or the transactions and statements that a user named.

One number for each run, step and name: the mean service time in the measured parts. They are compared as effects are,
by block, with intervals that hold simultaneously over all names, arms and steps. They are not adjusted for the host's
speed; of a load that sends as fast as it can, they follow the throughput.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from mydyno.analysis.base import Analysis, Examined
from mydyno.document.markdown_text import escape
from mydyno.document.markdown_text import table as markdown_table
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Figure, FigureGroup, Section, Table, figures_html
from mydyno.language import agreed, listing
from mydyno.model.stored.operations import OperationEffect, OperationsRecord
from mydyno.model.stored.summary import EffectRecord
from mydyno.results.families import Lane, families_of_values
from mydyno.results.precision import alarm_of
from mydyno.verdicts import Metric, decide_study
from mydyno.wording.counted import count_text, together
from mydyno.wording.numbers import NONE, latency_text, ratio_interval, signed_percent
from mydyno.wording.reasons import alarm_clause
from mydyno.wording.stored_result import ReportStep
from mydyno.wording.verdict_table import step_heading

HEADING = "Transactions and statements by name"
FEWEST_BLOCKS = 3
"""Fewer have no interval of use over several names."""
MOST_NAMED = 3
"""Changes in the section's sentence."""

Counted = dict[Lane, dict[str, dict[str, dict[str, float]]]]
"""lane → step → name → {count: per transaction, mean_us}"""


def analyse(study: Examined) -> OperationsRecord | None:
    """Every name of every arm; None where the load has none, and of fewer than three blocks."""
    counted = _counted(study)
    if len({block for block, _, _ in counted}) < FEWEST_BLOCKS:
        return None
    names = dict.fromkeys(name for steps in counted.values() for of in steps.values() for name in of)
    families = [
        family
        for name in names
        for family in families_of_values(
            study.experiment, _times(counted, name), study.runs, Metric(name, "µs", "lower")
        )
    ]
    decided = decide_study(families, study.alpha_of_causes, total=study.experiment.verdict.error_rate)
    alarm = alarm_of(decided)
    found = (_effect(one, counted, may_claim=study.due and alarm is None) for one in decided)
    return OperationsRecord(effects=tuple(one for one in found if one is not None), alarm=alarm)


def _counted(study: Examined) -> Counted:
    """What the runs and steps that count have counted."""
    usable = {(run.block, run.arm, run.copy_number): run for run in study.runs}
    found: Counted = defaultdict(dict)
    for record in study.records:
        lane = (record.block, record.arm, record.copy_number)
        for step in record.steps:
            if lane in usable and usable[lane].usable(step.id) and step.driver.transaction_types:
                whole = max(1, step.driver.transactions)
                found[lane][step.id] = {
                    name: {"count": one["count"] / whole, "mean_us": one["mean_us"]}
                    for name, one in step.driver.transaction_types.items()
                }
    return found


def _times(counted: Counted, name: str) -> dict[Lane, dict[str, float]]:
    return {
        lane: {step: of[name]["mean_us"] for step, of in steps.items() if of.get(name, {}).get("mean_us")}
        for lane, steps in counted.items()
    }


def _effect(effect: EffectRecord, counted: Counted, may_claim: bool) -> OperationEffect | None:
    def means(arm: str) -> tuple[float, float]:
        """(mean time, mean count per transaction) of the arm's runs."""
        runs = [of[effect.step] for (_, name, _), of in counted.items() if name == arm and effect.step in of]
        own = [of[effect.metric] for of in runs if effect.metric in of]
        if not own:
            return 0.0, 0.0
        return float(np.mean([one["mean_us"] for one in own])), float(np.mean([one["count"] for one in own]))

    (control_us, control_count), (arm_us, arm_count) = means(effect.control), means(effect.arm)
    if not control_us and not arm_us:
        return None
    low, high = effect.ci_low, effect.ci_high
    return OperationEffect(
        name=effect.metric, step=effect.step, arm=effect.arm, control=effect.control,
        control_us=control_us, arm_us=arm_us, control_count=control_count, arm_count=arm_count,
        ratio=effect.ratio, ci_low=low, ci_high=high,
        beyond_noise=may_claim and low is not None and high is not None and (low > 1.0 or high < 1.0),
    )  # fmt: skip


def sentence(result: StudyResult, record: OperationsRecord) -> str:
    """What changed beyond noise, the largest change first."""
    if record.alarm:
        return f"No difference is claimed: {alarm_clause(record.alarm)}."
    beyond = sorted((one for one in record.effects if one.beyond_noise), key=lambda one: -abs(np.log(one.ratio or 1.0)))
    if not beyond:
        return "No time is shown to differ."
    named = [
        f"{one.name} with {one.arm}{f' at {one.step}' if len(result.steps) > 1 else ''} "
        f"{signed_percent((one.ratio or 1.0) - 1)} ({ratio_interval(one.ci_low, one.ci_high)})"
        for one in beyond[:MOST_NAMED]
    ]
    rest = agreed(f"; {len(beyond) - MOST_NAMED} more differ") if len(beyond) > MOST_NAMED else ""
    return f"Times that changed: {listing(named)}{rest}."


def part(result: StudyResult) -> Section | None:
    """The section; None where the load has no names."""
    record = result.summary.operations
    if record is None or result.before_first_look:
        return None
    tables = [table for step in result.steps if (table := _table(result, record, step)).rows]
    says = sentence(result, record)
    return Section(
        "operations",
        HEADING,
        "Transactions",
        figures_html(
            f"{says} {together(result)} Not adjusted for the host's speed.",
            [FigureGroup("", [Figure([], table, "", "full", numbers_open=True) for table in tables])],
        ),
        says=says,
    )


def _table(result: StudyResult, record: OperationsRecord, step: ReportStep) -> Table:
    """A row for each name, a column for the control and each arm."""
    own = [one for one in record.effects if one.step == step.id]
    contrasts = list(dict.fromkeys((one.arm, one.control) for one in record.effects))
    rows: list[Sequence[str | Cell]] = []
    for name in dict.fromkeys(one.name for one in own):
        of_name: Mapping[tuple[str, str], OperationEffect] = {
            (one.arm, one.control): one for one in own if one.name == name
        }
        base = next((one for one in of_name.values() if one.control == result.summary.control), None)
        rows.append([name, _value(base), *(_cell(of_name.get(contrast)) for contrast in contrasts)])
    control = result.summary.control
    head = ("name", control, *(arm if of == control else f"{arm} against {of}" for arm, of in contrasts))
    note = "Mean service time, and how often per transaction. Bold: the interval excludes no change."
    return Table(step_heading(result, step), head, rows, note)


def _value(one: OperationEffect | None) -> Cell:
    if one is None or not one.control_us:
        return Cell(NONE, "num")
    return Cell(latency_text(one.control_us), "num", below=count_text(one.control_count))


def _cell(one: OperationEffect | None) -> Cell:
    if one is None or one.ratio is None:
        return Cell(NONE, "num")
    below = f"{ratio_interval(one.ci_low, one.ci_high)}; {latency_text(one.arm_us)}, {count_text(one.arm_count)}"
    return Cell(signed_percent(one.ratio - 1), "num strong" if one.beyond_noise else "num", below=below)


def lines(result: StudyResult) -> list[str]:
    """For a terminal: the transactions and statements whose times changed most; nothing where none did."""
    record = result.summary.operations
    if record is None or result.before_first_look or not any(one.beyond_noise for one in record.effects):
        return []
    return [sentence(result, record)]


def markdown(result: StudyResult) -> str:
    """The sentence, and a row for each name, arm and step; empty where the load has no names."""
    record = result.summary.operations
    if record is None or result.before_first_look or not record.effects:
        return ""
    rows = [
        (
            escape(one.name), escape(one.step), escape(one.arm), latency_text(one.control_us), latency_text(one.arm_us),
            signed_percent(one.ratio - 1) if one.ratio is not None else NONE, ratio_interval(one.ci_low, one.ci_high),
        )
        for one in record.effects
    ]  # fmt: skip
    heads = ("name", "step", "arm", "control", "with the arm", "change", "interval")
    return f"{escape(sentence(result, record))}\n\n{markdown_table(heads, rows, 3)}"


ANALYSIS = Analysis(
    chapter="why", part=part, folded=True, stored="operations", analyse=analyse, lines=lines, heading=HEADING,
    markdown=markdown,
)  # fmt: skip
