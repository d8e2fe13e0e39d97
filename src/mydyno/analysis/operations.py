"""How long each kind of transaction takes: the types of TPC-C, the transactions and statements that a user named, or
the statements of a capture by their digests; how many rows statements had, and how many failed.

One number for each run, step and name: the mean service time in the measured parts. They are compared as effects are,
by block, with intervals that hold simultaneously over all names, arms and steps. They are not adjusted for the host's
speed; of a load that sends as fast as it can, they follow the throughput.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

import numpy as np
from markupsafe import Markup

from mydyno.analysis.base import Analysis, Examined
from mydyno.document.markdown_text import escape
from mydyno.document.markdown_text import table as markdown_table
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Figure, FigureGroup, Section, Table, figures_html
from mydyno.drivers.merged import merged_types
from mydyno.language import agreed, listing
from mydyno.model.stored.operations import OperationEffect, OperationsRecord
from mydyno.model.stored.records import Digest
from mydyno.model.stored.summary import EffectRecord, Summary
from mydyno.results.families import Lane, families_of_values
from mydyno.results.precision import alarm_of
from mydyno.verdicts import Metric, decide_study
from mydyno.wording.counted import count_text, together
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
from mydyno.wording.reasons import alarm_clause
from mydyno.wording.verdict_table import step_heading

HEADING = "Transactions and statements by name"
FEWEST_BLOCKS = 3
"""Fewer have no interval of use over several names."""
MOST_NAMED = 3
"""Changes in the section's sentence."""
MOST_LINES = 5
"""Changes that a terminal shows."""

Counted = dict[Lane, dict[str, dict[str, dict[str, float]]]]
"""lane → step → name → as in DriverResult.transaction_types, with `share`: count per transaction"""


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
    timed = {(one.metric, one.step, one.arm, one.control): one for one in decided}
    contrasts = dict.fromkeys((one.step, one.arm, one.control) for one in decided)
    may_claim = study.due and alarm is None
    found = [
        _effect(name, *contrast, counted, timed.get((name, *contrast)), may_claim)
        for name in names
        for contrast in contrasts
    ]
    digests = {step.id: step.driver.digests for run in study.records for step in run.steps if step.driver.digests}
    return OperationsRecord(effects=tuple(one for one in found if one is not None), digests=digests, alarm=alarm)


def _counted(study: Examined) -> Counted:
    """What the runs and steps that count have counted."""
    usable = {(run.block, run.arm, run.copy_number): run for run in study.runs}
    found: Counted = defaultdict(dict)
    for record in study.records:
        lane = (record.block, record.arm, record.copy_number)
        for step in record.steps:
            if lane in usable and usable[lane].usable(step.id) and step.driver.transaction_types:
                ended = max(1, step.driver.transactions)
                found[lane][step.id] = {
                    name: {**one, "share": one["count"] / ended} for name, one in step.driver.transaction_types.items()
                }
    return found


def _times(counted: Counted, name: str) -> dict[Lane, dict[str, float]]:
    return {
        lane: {step: of[name]["mean_us"] for step, of in steps.items() if of.get(name, {}).get("mean_us")}
        for lane, steps in counted.items()
    }


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
    name: str, step: str, arm: str, control: str, counted: Counted, effect: EffectRecord | None, may_claim: bool
) -> OperationEffect | None:
    """None where neither arm has the name at the step; of what always failed there is no `effect`."""
    base, own = (_of_arm(counted, one, step, name) for one in (control, arm))
    if not any(one.us or one.errors for one in (base, own)):
        return None
    low, high = (effect.ci_low, effect.ci_high) if effect is not None else (None, None)
    return OperationEffect(
        name=name, step=step, arm=arm, control=control,
        control_us=base.us, arm_us=own.us, control_count=base.count, arm_count=own.count,
        control_errors=base.errors, arm_errors=own.errors, control_rows=base.rows, arm_rows=own.rows,
        rows_exact=all(one.rows is not None and one.least_rows == one.most_rows for one in (base, own)),
        ratio=effect.ratio if effect is not None else None, ci_low=low, ci_high=high,
        beyond_noise=may_claim and low is not None and high is not None and (low > 1.0 or high < 1.0),
    )  # fmt: skip


def _changed(record: OperationsRecord) -> list[OperationEffect]:
    """What changed beyond noise, the largest change first."""
    return sorted((one for one in record.effects if one.beyond_noise), key=lambda one: -abs(np.log(one.ratio or 1.0)))


def _where(summary: Summary, one: OperationEffect) -> str:
    return f"with {one.arm}{f' at {one.step}' if len(summary.steps) > 1 else ''}"


def _change(summary: Summary, one: OperationEffect) -> str:
    change = f"{signed_percent((one.ratio or 1.0) - 1)} ({ratio_interval(one.ci_low, one.ci_high)})"
    return f"{one.name} {_where(summary, one)} {change}"


def _all_of(record: OperationsRecord) -> str:
    return f"of {len(dict.fromkeys(one.name for one in record.effects))} by name"


def sentence(summary: Summary, record: OperationsRecord) -> str:
    """What changed beyond noise, the largest change first; and statements with other rows than the control's."""
    if record.alarm:
        return f"No difference is claimed: {alarm_clause(record.alarm)}."
    beyond = _changed(record)
    rows = _other_rows(summary, record)
    if not beyond:
        return " ".join((f"No time {_all_of(record)} is shown to differ.", *rows))
    named = [_change(summary, one) for one in beyond[:MOST_NAMED]]
    rest = agreed(f"; {len(beyond) - MOST_NAMED} more differ") if len(beyond) > MOST_NAMED else ""
    return " ".join((f"Times that changed, {_all_of(record)}: {listing(named)}{rest}.", *rows))


def _other_rows(summary: Summary, record: OperationsRecord) -> list[str]:
    """A sentence on the statements whose number of rows is another one, whichever of them were executed."""
    other = [one for one in record.effects if one.rows_exact and one.arm_rows != one.control_rows]
    if not other:
        return []
    named = [
        f"{one.name} has {one.arm_rows:.0f} {_where(summary, one)}, {one.control_rows:.0f} with {one.control}"
        for one in other[:MOST_NAMED]
    ]
    rest = agreed(f"; {len(other) - MOST_NAMED} more differ") if len(other) > MOST_NAMED else ""
    return [f"Rows that differ: {'; '.join(named)}{rest}."]


def most_changed(summary: Summary) -> str:
    """The answer's sentence on the time that changed most; empty where none did."""
    beyond = _changed(summary.operations) if summary.operations is not None else []
    if not beyond:
        return ""
    first = beyond[0]
    change = change_words(first.ratio or 1.0, first.ci_low, first.ci_high)
    return f"The time that changed most {_where(summary, first)} is that of {first.name}: {change}."


def part(result: StudyResult) -> Section | None:
    """The section; None where the load has no names."""
    record = result.summary.operations
    if record is None or result.before_first_look or not record.effects:
        return None
    says = sentence(result.summary, record)
    return Section(
        "operations",
        HEADING,
        "Transactions",
        figures_html(
            f"{says} {together(result)} Not adjusted for the host's speed.",
            [FigureGroup("", [Figure([], _table(result, record), "", "full", numbers_open=True)])],
        ),
        says=says,
    )


def _table(result: StudyResult, record: OperationsRecord) -> Table:
    """A row for each name and step, a column for the control and each arm; what took most of the time comes first."""
    control = result.summary.control
    contrasts = list(dict.fromkeys((one.arm, one.control) for one in record.effects))
    of_row: dict[tuple[str, str], dict[tuple[str, str], OperationEffect]] = {}
    for one in sorted(record.effects, key=lambda one: -max(one.control_us * one.control_count, 0.0)):
        of_row.setdefault((one.step, one.name), {})[one.arm, one.control] = one
    headings = {step.id: step_heading(result, step) for step in result.steps}
    has_steps = len({step for step, _ in of_row}) > 1
    has_rows = any(one.control_rows is not None or one.arm_rows is not None for one in record.effects)
    has_errors = any(one.control_errors or one.arm_errors for one in record.effects)
    texts = {(step, one.name): one for step, digests in record.digests.items() for one in digests}
    rows: list[Sequence[str | Cell]] = []
    for (step, name), own in of_row.items():
        base = next((one for one in own.values() if one.control == control), None)
        rows.append([
            _name(name, texts.get((step, name))),
            *([Cell(headings[step])] if has_steps else []),
            _value(base),
            *(_cell(own.get(contrast)) for contrast in contrasts),
            *([_rows(list(own.values()))] if has_rows else []),
            *([_errors(list(own.values()))] if has_errors else []),
        ])  # fmt: skip
    head = (
        "name", *(["step"] if has_steps else []), control,
        *(arm if of == control else f"{arm} against {of}" for arm, of in contrasts),
        *(["rows"] if has_rows else []), *(["errors"] if has_errors else []),
    )  # fmt: skip
    note = "Mean service time, and how often per transaction. Bold: the interval excludes no change."
    if has_rows:
        note += " Rows: returned or changed by one statement; bold: each had this number, so the difference is exact."
    if has_errors:
        note += " Errors: share of the attempts."
    caption = HEADING if has_steps else headings[next(iter(of_row))[0]]
    return Table(caption, head, rows, note, sortable=True)


def _name(name: str, digest: Digest | None) -> str | Cell:
    """Where it is one of a capture, with the whole statement in a fold."""
    if digest is None:
        return name
    text = "" if digest.text == name else Markup("<code>{}</code> ").format(digest.text)
    fold = Markup("<details><summary>{}</summary>{}<small>digest {}</small></details>")
    return Cell("", mark=fold.format(name, text, digest.digest))


def _time(us: float) -> str:
    return latency_text(us) if us else NONE


def _value(one: OperationEffect | None) -> Cell:
    if one is None or not one.control_us:
        return Cell(NONE, "num")
    return Cell(_time(one.control_us), "num", below=count_text(one.control_count))


def _cell(one: OperationEffect | None) -> Cell:
    if one is None or one.ratio is None:
        return Cell(NONE, "num")
    below = f"{ratio_interval(one.ci_low, one.ci_high)}; {latency_text(one.arm_us)}, {count_text(one.arm_count)}"
    return Cell(signed_percent(one.ratio - 1), "num strong" if one.beyond_noise else "num", below=below)


def _rows(own: Sequence[OperationEffect]) -> Cell:
    """The control's rows, and below those of arms with another number."""
    other = [
        one for one in own if one.arm_rows is not None and _rows_text(one.arm_rows) != _rows_text(one.control_rows)
    ]
    below = "; ".join(f"{one.arm} {_rows_text(one.arm_rows)}" for one in other)
    strong = any(one.rows_exact for one in other)
    return Cell(_rows_text(own[0].control_rows), "num strong" if strong else "num", below=below)


def _rows_text(rows: float | None) -> str:
    if rows is None:
        return NONE
    return whole(rows) if rows.is_integer() else significant(rows)


def _errors(own: Sequence[OperationEffect]) -> Cell:
    """The control's, and below those of every arm where there are any."""
    some = any(one.control_errors or one.arm_errors for one in own)
    below = "; ".join(f"{one.arm} {percent(one.arm_errors)}" for one in own) if some else ""
    return Cell(percent(own[0].control_errors), "num", below=below)


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
    return [first, *changed, *_other_rows(result.summary, record)]


def _pair(control: str, arm: str) -> str:
    return control if control == arm else f"{control} → {arm}"


def markdown(result: StudyResult) -> str:
    """The sentence, and a row for each name, arm and step; empty where the load has no names."""
    record = result.summary.operations
    if record is None or result.before_first_look or not record.effects:
        return ""
    rows = [
        (
            escape(one.name), escape(one.step), escape(one.arm), _time(one.control_us), _time(one.arm_us),
            signed_percent(one.ratio - 1) if one.ratio is not None else NONE, ratio_interval(one.ci_low, one.ci_high),
            _pair(_rows_text(one.control_rows), _rows_text(one.arm_rows)),
            _pair(percent(one.control_errors), percent(one.arm_errors)),
        )
        for one in record.effects
    ]  # fmt: skip
    heads = ("name", "step", "arm", "control", "with the arm", "change", "interval", "rows", "errors")
    return f"{escape(sentence(result.summary, record))}\n\n{markdown_table(heads, rows, 3)}"


ANALYSIS = Analysis(
    chapter="why", part=part, folded=True, stored="operations", analyse=analyse, adds=most_changed, lines=lines,
    heading=HEADING, markdown=markdown,
)  # fmt: skip
