"""How long each kind of transaction takes: the types of TPC-C, the transactions and statements that a user named, or
the statements of a capture by their digests; how often they ended, how many rows statements had, and how many failed.

One number of each quantity for each run, step and name, of the measured parts. They are compared as
effects are, by block, with intervals that hold simultaneously over all quantities, names, arms and steps. They are not
adjusted for the host's speed; of a load that sends as fast as it can, times follow the throughput.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

import numpy as np
from markupsafe import Markup

from mydyno.analysis.base import Analysis, Examined
from mydyno.document.counted import count_text, together
from mydyno.document.parts import Cell, Note, Part, Table
from mydyno.document.result import StudyResult
from mydyno.drivers.base import merged_types
from mydyno.language import agreed
from mydyno.model.stored.analyses import OperationChange, OperationEffect, OperationsRecord
from mydyno.model.stored.records import Digest
from mydyno.model.stored.summary import EffectRecord, Summary, with_summaries
from mydyno.results.families import Lane, families_of_values
from mydyno.results.precision import alarm_of
from mydyno.verdicts import Metric, decide_study
from mydyno.wording.numbers import (
    NONE,
    change_words,
    latency_text,
    percent,
    ratio_interval,
    signed_percent,
    significant,
    whole,
)
from mydyno.wording.verdicts import alarm_clause

FEWEST_BLOCKS = 3
"""Fewer have no interval of use over several names."""

TIME = "time"
QUANTITIES: dict[str, Callable[[Mapping[str, float]], float]] = {
    TIME: lambda one: one["mean_us"],
    "count": lambda one: one["share"],
    "success": lambda one: one["count"] / (one["count"] + one.get("errors", 0.0)),
    "rows": lambda one: one.get("rows", 0.0) / max(1.0, one["count"]),
}
"""What is compared of each name, by the fields of OperationEffect; 0: there is none."""

Counted = dict[Lane, dict[str, dict[str, dict[str, float]]]]
"""lane → step → name → as in DriverResult.transaction_types, with `share`: count per transaction"""


def analyse(study: Examined) -> OperationsRecord | None:
    """Every name of every arm; None where the load has none, and of fewer than three blocks."""
    counted = _counted(study)
    if len({block for block, _, _ in counted}) < FEWEST_BLOCKS:
        return None
    names = list(dict.fromkeys(name for steps in counted.values() for of in steps.values() for name in of))
    families = [
        family
        for name in names
        for quantity in QUANTITIES
        for family in families_of_values(
            study.experiment, _values(counted, name, quantity), study.runs, Metric(_key(name, quantity))
        )
    ]
    decided = decide_study(families, study.alpha_of_causes, total=study.experiment.verdict.error_rate)
    alarm = alarm_of(decided)
    may_claim = study.due and alarm is None
    changes = {one.contrast: _change_of(one, may_claim) for one in decided}
    contrasts = dict.fromkeys((one.step, one.arm, one.control) for one in decided)
    found = [
        _effect(name, *contrast, counted, {
            quantity: changes.get((_key(name, quantity), *contrast)) for quantity in QUANTITIES
        })
        for name in names
        for contrast in contrasts
    ]  # fmt: skip
    digests = {step.id: step.driver.digests for run in study.records for step in run.steps if step.driver.digests}
    return OperationsRecord(effects=tuple(one for one in found if one is not None), digests=digests, alarm=alarm)


def _counted(study: Examined) -> Counted:
    """What the runs and steps that count have counted."""
    found: Counted = defaultdict(dict)
    for record, summary in with_summaries(study.records, study.runs):
        lane = (record.block, record.arm, record.copy_number)
        for step in record.steps:
            if summary.usable(step.id) and step.driver.transaction_types:
                ended = max(1, step.driver.transactions)
                found[lane][step.id] = {
                    name: {**one, "share": one["count"] / ended} for name, one in step.driver.transaction_types.items()
                }
    return found


def _key(name: str, quantity: str) -> str:
    return name if quantity == TIME else f"{name} ({quantity})"


def _values(counted: Counted, name: str, quantity: str) -> dict[Lane, dict[str, float]]:
    """One number above 0 for each lane and step, without the steps at which it never varies within an arm."""
    found: dict[Lane, dict[str, float]] = defaultdict(dict)
    varied: dict[tuple[str, str], set[float]] = defaultdict(set)
    for lane, steps in counted.items():
        for step, of in steps.items():
            if name in of and (value := QUANTITIES[quantity](of[name])):
                found[lane][step] = value
                varied[step, lane[1]].add(value)
    vary = {step for (step, _), values in varied.items() if len(values) > 1}
    return {lane: {step: value for step, value in own.items() if step in vary} for lane, own in found.items()}


def _change_of(effect: EffectRecord, may_claim: bool) -> OperationChange:
    return OperationChange.like(effect, beyond_noise=may_claim and effect.excludes_no_change)


@dataclass(frozen=True, slots=True)
class _OfArm:
    """One name in all runs of an arm."""

    us: float = 0.0
    count: float = 0.0
    """Per transaction."""
    errors: float = 0.0
    """Per attempt."""
    rows: float | None = None
    least_rows: float | None = None
    most_rows: float | None = None


def _of_arm(counted: Counted, arm: str, step: str, name: str) -> _OfArm:
    lanes = [of.get(step, {}).get(name) for (_, other, _), of in counted.items() if other == arm]
    own = [one for one in lanes if one is not None]
    if not own:
        return _OfArm()
    merged = merged_types([{name: one} for one in own])[name]
    attempts = merged["count"] + merged.get("errors", 0.0)
    return _OfArm(
        us=geometric_mean(times) if (times := [one["mean_us"] for one in own if one["count"]]) else 0.0,
        count=float(np.mean([one["share"] for one in own])),
        errors=merged.get("errors", 0.0) / attempts,
        rows=merged["rows"] / merged["count"] if "rows" in merged else None,
        least_rows=merged.get("least_rows"),
        most_rows=merged.get("most_rows"),
    )


def _effect(
    name: str, step: str, arm: str, control: str, counted: Counted, changes: Mapping[str, OperationChange | None]
) -> OperationEffect | None:
    """None where neither arm has the name at the step; of what always failed there is no time."""
    base, own = (_of_arm(counted, one, step, name) for one in (control, arm))
    if not any(one.us or one.errors for one in (base, own)):
        return None
    time = changes[TIME] or OperationChange(ratio=None)
    return OperationEffect(
        name=name, step=step, arm=arm, control=control,
        control_us=base.us, arm_us=own.us, control_count=base.count, arm_count=own.count,
        control_errors=base.errors, arm_errors=own.errors, control_rows=base.rows, arm_rows=own.rows,
        rows_exact=all(one.rows is not None and one.least_rows == one.most_rows for one in (base, own)),
        **{quantity: change for quantity, change in changes.items() if quantity != TIME}, **dict(time),
    )  # fmt: skip


HEADING = "Transactions and statements by name"
MOST_NAMED = 3
"""Changes in the section's sentence."""
MOST_LINES = 5
"""Changes that a terminal shows."""


def _changed(record: OperationsRecord) -> list[OperationEffect]:
    """What changed beyond noise, the largest change first."""
    return sorted((one for one in record.effects if one.beyond_noise), key=lambda one: -abs(np.log(one.ratio or 1.0)))


def _where(summary: Summary, one: OperationEffect) -> str:
    return f"with {one.arm}{f' at {one.step}' if len(summary.steps) > 1 else ''}"


def _change(summary: Summary, one: OperationEffect) -> str:
    return f"{one.name} {_where(summary, one)} {_of_ratio(one)}"


def _all_of(record: OperationsRecord) -> str:
    return f"of {len(dict.fromkeys(one.name for one in record.effects))} by name"


def sentence(summary: Summary, record: OperationsRecord) -> str:
    """What changed beyond noise, the largest change first; and statements with other rows than the control's."""
    if record.alarm:
        return f"No difference is claimed: {alarm_clause(record.alarm)}."
    beyond, others = _changed(record), _others(summary, record)
    if not beyond:
        return " ".join((f"No time {_all_of(record)} is shown to differ.", *others))
    return " ".join(
        (_listed(f"Times that changed, {_all_of(record)}", [_change(summary, one) for one in beyond]), *others)
    )


def _listed(heading: str, named: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    rest = agreed(f"; {len(named) - MOST_NAMED} more differ") if len(named) > MOST_NAMED else ""
    return f"{heading}: {'; '.join(named[:MOST_NAMED])}{rest}."


def _others(summary: Summary, record: OperationsRecord) -> list[str]:
    """Sentences on what differs beside the time: how often, errors, rows."""
    found: dict[str, list[str]] = defaultdict(list)
    for one in record.effects:
        where = f"{one.name} {_where(summary, one)}"
        if one.count is not None and one.count.beyond_noise:
            found["Executions per transaction that changed"].append(f"{where} {_of_ratio(one.count)}")
        if one.success is not None and one.success.beyond_noise:
            found["Errors that changed"].append(
                f"{where} {_of_errors(one)}, {percent(one.control_errors)} with {one.control}"
            )
        if one.rows_exact and one.arm_rows != one.control_rows:
            found["Rows that differ"].append(
                f"{one.name} has {one.arm_rows:.0f} {_where(summary, one)}, {one.control_rows:.0f} with {one.control}"
            )
        elif one.rows is not None and one.rows.beyond_noise:
            found["Rows that changed"].append(f"{where} {_of_ratio(one.rows)}")
    return [_listed(heading, named) for heading, named in found.items()]


def _of_ratio(change: OperationChange | OperationEffect) -> str:
    return f"{signed_percent((change.ratio or 1.0) - 1)} ({ratio_interval(change.ci_low, change.ci_high)})"


def _of_errors(one: OperationEffect) -> str:
    """The arm's share, and the interval in which it lies by that of the successes."""
    change, text = one.success, percent(one.arm_errors)
    if change is None or change.ci_low is None or change.ci_high is None:
        return text
    low, high = (
        percent(max(0.0, 1.0 - (1.0 - one.control_errors) * ratio)) for ratio in (change.ci_high, change.ci_low)
    )
    return f"{text} ({low} … {high})"


def most_changed(summary: Summary) -> str:
    """The answer's sentence on the time that changed most; empty where none did."""
    beyond = _changed(summary.operations) if summary.operations is not None else []
    if not beyond:
        return ""
    first = beyond[0]
    change = change_words(first.ratio or 1.0, first.ci_low, first.ci_high)
    return f"The time that changed most {_where(summary, first)} is that of {first.name}: {change}."


def part(result: StudyResult) -> Part | None:
    """The section; None where the load has no names."""
    record = result.summary.operations
    if record is None or result.before_first_look or not record.effects:
        return None
    says = sentence(result.summary, record)
    intro = Note(f"{says} {together(result)} Not adjusted for the host's speed.", "intro")
    return Part(id="operations", heading=HEADING, says=says, folded=True, body=[intro, _table(result, record)])


def _table(result: StudyResult, record: OperationsRecord) -> Table:
    """A row for each name and step, a column for the control and each arm; what took most of the time comes first."""
    control = result.summary.control
    contrasts = list(dict.fromkeys((one.arm, one.control) for one in record.effects))
    of_row: dict[tuple[str, str], dict[tuple[str, str], OperationEffect]] = {}
    for one in sorted(record.effects, key=lambda one: -max(one.control_us * one.control_count, 0.0)):
        of_row.setdefault((one.step, one.name), {})[one.arm, one.control] = one
    headings = {step.id: result.step_heading(step) for step in result.steps}
    has_steps = len({step for step, _ in of_row}) > 1
    texts = {(step, one.name): one for step, digests in record.digests.items() for one in digests}
    beside = [column for column in COLUMNS if any(column.has(one) for one in record.effects)]
    rows: list[Sequence[str | Cell]] = []
    for (step, name), own in of_row.items():
        base = next((one for one in own.values() if one.control == control), None)
        rows.append([
            _name(name, texts.get((step, name))),
            *([Cell(headings[step])] if has_steps else []),
            Cell(_time(base.control_us) if base is not None else NONE, "num"),
            *(_cell(own.get(contrast)) for contrast in contrasts),
            *(column.cell(list(own.values())) for column in beside),
        ])  # fmt: skip
    head = (
        "name", *(["load level"] if has_steps else []), control,
        *(arm if of == control else f"{arm} against {of}" for arm, of in contrasts),
        *(column.heading for column in beside),
    )  # fmt: skip
    note = " ".join(("Mean service time. Bold: the interval excludes no change.", *(column.note for column in beside)))
    caption = HEADING if has_steps else headings[next(iter(of_row))[0]]
    return Table(caption, head, rows, note, sortable=True)


def _name(name: str, digest: Digest | None) -> str | Cell:
    """Where it is one of a capture, with the whole statement in a fold."""
    if digest is None:
        return name
    text = "" if digest.text == name else Markup("<code>{}</code> ").format(digest.text)
    fold = Markup("<details><summary>{}</summary>{}<small>digest {}</small></details>")
    return Cell(name, drawn=fold.format(name, text, digest.digest))


def _time(us: float) -> str:
    return latency_text(us) if us else NONE


def _cell(one: OperationEffect | None) -> Cell:
    if one is None or one.ratio is None:
        return Cell(NONE, "num")
    below = f"{ratio_interval(one.ci_low, one.ci_high)}; {latency_text(one.arm_us)}"
    return Cell(signed_percent(one.ratio - 1), "num strong" if one.beyond_noise else "num", below=below)


@dataclass(frozen=True)
class _Column:
    """What the table has of a name beside its times: the control's, and below it the arms'."""

    heading: str
    note: str
    has: Callable[[OperationEffect], bool]
    """Whether there is anything to show."""
    of_control: Callable[[OperationEffect], str]
    of_arm: Callable[[OperationEffect], str]
    """Empty where there is nothing to compare."""
    is_strong: Callable[[OperationEffect], bool]

    def cell(self, own: Sequence[OperationEffect]) -> Cell:
        """One row's."""
        below = "; ".join(f"{one.arm} {text}" for one in own if (text := self.of_arm(one)))
        strong = any(map(self.is_strong, own))
        return Cell(self.of_control(own[0]), "num strong" if strong else "num", below=below)


def _rows_text(rows: float | None) -> str:
    if rows is None:
        return NONE
    return whole(rows) if rows.is_integer() else significant(rows)


def _with_interval(value: str, change: OperationChange | None) -> str:
    interval = ratio_interval(change.ci_low, change.ci_high) if change is not None else ""
    return f"{value} ({interval})" if interval else value


def _rows_of_arm(one: OperationEffect) -> str:
    same = one.arm_rows is None or (one.rows is None and _rows_text(one.arm_rows) == _rows_text(one.control_rows))
    return "" if same else _with_interval(_rows_text(one.arm_rows), one.rows)


def _beyond(change: OperationChange | None) -> bool:
    return change is not None and change.beyond_noise


COLUMNS = (
    _Column(
        "per transaction", "Per transaction: how often it ended.", lambda one: bool(one.control_count or one.arm_count),
        lambda one: count_text(one.control_count),
        lambda one: _with_interval(count_text(one.arm_count), one.count), lambda one: _beyond(one.count),
    ),
    _Column(
        "rows",
        "Rows: returned or changed by one statement; bold without an interval: each had this number, so the difference "
        "is exact.",
        lambda one: one.control_rows is not None or one.arm_rows is not None,
        lambda one: _rows_text(one.control_rows), _rows_of_arm,
        lambda one: _beyond(one.rows) or (one.rows_exact and one.arm_rows != one.control_rows),
    ),
    _Column(
        "errors", "Errors: share of the attempts.", lambda one: bool(one.control_errors or one.arm_errors),
        lambda one: percent(one.control_errors),
        lambda one: _of_errors(one) if one.control_errors or one.arm_errors else "", lambda one: _beyond(one.success),
    ),
)  # fmt: skip


def lines(result: StudyResult) -> list[str]:
    """For a terminal: how many transactions and statements there are, and those whose times changed most."""
    record = result.summary.operations
    if record is None or result.before_first_look or not record.effects:
        return []
    beyond = _changed(record)
    if len(beyond) <= 1:
        return [sentence(result.summary, record)]
    rest = " The largest changes:" if len(beyond) > MOST_LINES else ""
    changed = [_change(result.summary, one) for one in beyond[:MOST_LINES]]
    first = f"Times that changed, {_all_of(record)}: {len(beyond)}.{rest}"
    return [first, *changed, *_others(result.summary, record)]


ANALYSIS = Analysis(
    chapter="why", part=part, comment=part, stored="operations", analyse=analyse, adds=most_changed, lines=lines,
)  # fmt: skip
