"""What a busy host does to runs of the block design: steps with unequal steal, and runs that only its noise spoiled.

A step of a block in which one arm lost much more CPU time to the hypervisor than another is dropped for all arms. Never
for one arm alone, and never by looking at a result: the decision rests on steal, which no arm can change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from mydyno.model.stored.reasons import Reason, ValidityCheck
from mydyno.model.stored.records import RunRecord
from mydyno.model.stored.summary import RunSummary

STEAL = "cpu_steal_pct"
NOISE_CHECKS: tuple[ValidityCheck, ...] = ("driver_cpu", "steal")
"""Validity checks of a step that fail on a busy host."""


def is_host_noise(run: RunRecord) -> bool:
    """Whether a run is invalid only because of a busy host: such runs neither end a study nor make it a failed one."""
    return (
        not run.failed
        and bool(run.steps)
        and all(reason.check == "no_valid_step" for reason in run.reasons)
        and all(step.reasons for step in run.steps)
        and all(reason.check in NOISE_CHECKS for step in run.steps for reason in step.reasons)
    )


def without_unequal_steal(runs: Sequence[RunSummary], most_spread: float) -> tuple[RunSummary, ...]:
    """The runs of the block design; a block's step whose runs saw steal that differs by more than `most_spread` (a
    share of 1) is marked as not used in each of them.
    """
    seen: dict[tuple[int, str], list[float]] = defaultdict(list)
    for run in runs:
        for step, values in run.values.items():
            if run.valid and STEAL in values:
                seen[run.block, step].append(values[STEAL] / 100)
    spread = {key: max(shares) - min(shares) for key, shares in seen.items()}
    return tuple(_marked(run, {s: spread[run.block, s] for s in run.values if (run.block, s) in spread}, most_spread)
                 for run in runs)  # fmt: skip


def _marked(run: RunSummary, spread: dict[str, float], most_spread: float) -> RunSummary:
    found = {
        step: (
            *run.invalid_steps.get(step, ()),
            Reason(check="steal", text=f"it differed by {100 * width:.0f} % between the block's arms"),
        )
        for step, width in spread.items()
        if width > most_spread
    }
    return run.model_copy(update={"invalid_steps": {**run.invalid_steps, **found}}) if found else run
