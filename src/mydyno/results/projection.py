"""The precision of an interleaved study so far and at its next look; it contains nothing about any effect.

From the residuals of lanes after block and lane means have been taken out, per step and metric, pooled over lanes: the
same noise that the intervals at a look are made of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mydyno.model.definition.plan import Plan
from mydyno.model.stored.records import SliceRecord
from mydyno.results.families import expected_contrasts, verdict_metrics
from mydyno.results.values.interleaved import Values, interleaved_values
from mydyno.stats.power import projected_half_width
from mydyno.store.slices import SLICES_FILE, read_slices
from mydyno.store.study_folder import StudyFolder

LEAST_BLOCKS = 2


@dataclass(frozen=True)
class Precision:
    """Half-widths that are to be expected at `blocks` blocks, as fractions, of the least precise step."""

    blocks: int
    made: int
    half_widths: dict[str, float]
    """Metric → half-width."""
    workloads: frozenset[str] = frozenset()


def precision_so_far(folder: StudyFolder, plan: Plan, blocks: int) -> Precision | None:
    """The precision to be expected at `blocks` blocks from those made so far; None before the second block."""
    made, slices = _blocks_so_far(folder)
    if made < LEAST_BLOCKS:
        return None
    experiment = folder.study().experiment
    metrics = verdict_metrics(experiment)
    compared = [metric for declared in experiment.verdict.compare for metric in declared.metrics]
    found = interleaved_values(experiment, slices, only=[*metrics, *compared])
    measured = {metric for steps in found.adjusted.values() for values in steps.values() for metric in values}
    contrasts = expected_contrasts(experiment, sorted(measured))
    widths: dict[str, float] = {}
    for metric in metrics:
        sds = [sd for step in {one.step for one in slices} if (sd := residual_sd(found.adjusted, step, metric))]
        if sds:
            alpha = plan.schedule.alpha_at(blocks) if plan.schedule is not None else None
            # The sd of one lane's values; projected_half_width takes that of the difference of two copies.
            width = projected_half_width(2**0.5 * max(sds), blocks, len(experiment.arms) + 1, contrasts,
                                         alpha or experiment.verdict.error_rate)  # fmt: skip
            if width is not None:
                widths[metric] = round(width, 5)
    workloads = frozenset(step.workload for step in experiment.resolved_steps)
    return Precision(blocks, made, widths, workloads) if widths else None


def _blocks_so_far(folder: StudyFolder) -> tuple[int, list[SliceRecord]]:
    """The number of finished blocks, and their slices."""
    made = 0
    slices: list[SliceRecord] = []
    while folder.block_path(made + 1).is_dir():
        made += 1
        slices += read_slices(folder.block_path(made) / SLICES_FILE)
    return made, slices


def slices_so_far(folder: StudyFolder) -> list[SliceRecord]:
    """The slices of all finished blocks."""
    return _blocks_so_far(folder)[1]


def carry_over_so_far(folder: StudyFolder, washout_s: float) -> dict[str, float]:
    """step → change of throughput by the arm loaded before a slice, of the slices with at least this washout."""
    slices = slices_so_far(folder)
    own = [one for one in slices if one.washout_s is None or one.washout_s >= washout_s]
    if not own:
        return {}
    # The slopes for throughput are all that it takes of the values.
    return interleaved_values(folder.study().experiment, own, only=["qps"]).record.carry_over


def residual_sd(values: Values, step: str, metric: str) -> float | None:
    """The standard deviation of one lane's log value in one block beyond block and lane means; None if unknown."""
    blocks = sorted({block for block, _, _ in values})
    lanes = sorted({(arm, copy) for _, arm, copy in values})
    table = np.array(
        [[values.get((block, *lane), {}).get(step, {}).get(metric, np.nan) for lane in lanes] for block in blocks]
    )
    table = table[:, ~np.isnan(table).any(axis=0)]
    if table.shape[0] < LEAST_BLOCKS or table.shape[1] < 2 or not (table > 0).all():
        return None
    logs = np.log(table)
    residuals = logs - logs.mean(axis=0) - logs.mean(axis=1, keepdims=True) + logs.mean()
    freedom = (logs.shape[0] - 1) * (logs.shape[1] - 1)
    return float(np.sqrt((residuals**2).sum() / freedom))
