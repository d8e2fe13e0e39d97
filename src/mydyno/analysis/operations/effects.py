"""The number of each quantity for each run, step and name, and the arms' effects on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import geometric_mean

import numpy as np

from mydyno.analysis.base import Examined
from mydyno.drivers.base import merged_types
from mydyno.model.stored.operations import OperationChange, OperationEffect, OperationsRecord
from mydyno.model.stored.summary import EffectRecord
from mydyno.results.families import Lane, families_of_values
from mydyno.results.precision import alarm_of
from mydyno.verdicts import Metric, decide_study

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
    changes = {(one.metric, one.step, one.arm, one.control): _change_of(one, may_claim) for one in decided}
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
    low, high = effect.ci_low, effect.ci_high
    beyond = may_claim and low is not None and high is not None and (low > 1.0 or high < 1.0)
    return OperationChange(ratio=effect.ratio, ci_low=low, ci_high=high, beyond_noise=beyond)


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
