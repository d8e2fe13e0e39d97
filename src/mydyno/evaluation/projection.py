"""The precision of an interleaved study so far and at its next look, and its words in the progress; it contains nothing
about any effect.

From the noise of every contrast, as in the intervals at a look: pooled over lanes, or its own where that is larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, log1p, sqrt

from mydyno.evaluation.facts import interleaved_summary
from mydyno.model.definition.plan import Plan
from mydyno.model.metrics import ordered, phrase_of
from mydyno.model.stored.records import SliceRecord
from mydyno.results.families import families, verdict_metrics
from mydyno.results.precision import MOST_PROMISED
from mydyno.results.values.interleaved import interleaved_values
from mydyno.stats.contrast import Estimate
from mydyno.stats.paired import LARGEST_LOG, t_quantile
from mydyno.store.slices import SLICES_FILE, read_slices
from mydyno.store.study_folder import StudyFolder
from mydyno.verdicts.decide import measure
from mydyno.verdicts.together import estimates_of
from mydyno.wording.numbers import blocks

LEAST_BLOCKS = 2


@dataclass(frozen=True)
class Precision:
    """Half-widths that are to be expected at `blocks` blocks, as fractions, of the least precise contrast."""

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
    runs = [interleaved_summary(run, found, experiment.resolved_steps) for run in folder.runs() if run.block <= made]
    measured = ordered({metric for run in runs for values in run.values.values() for metric in values})
    members = [
        one
        for family in families(experiment, runs, measured)
        if family.primary
        for one in measure(family)
        if one.estimate.n > 0
    ]
    alpha = plan.schedule.alpha_at(blocks) if plan.schedule is not None else None
    total, kept = sum(one.family.weight for one in members), log1p(-(alpha or experiment.verdict.error_rate))
    widths: dict[str, float] = {}
    for one, estimate in zip(members, estimates_of(members), strict=True):
        one_alpha = -expm1(kept * one.family.weight / total)  # Šidák
        metric, width = one.family.metric.name, projected(estimate, blocks, one_alpha)
        if width is not None and metric in metrics:
            widths[metric] = max(width, widths.get(metric, 0.0))
    workloads = frozenset(step.workload for step in experiment.resolved_steps)
    return Precision(blocks, made, widths, workloads) if widths else None


def projected(estimate: Estimate, blocks: int, alpha: float) -> float | None:
    """The half-width of an estimate's interval at so many blocks, with the noise that it has now; None if unknown."""
    if estimate.error is None or estimate.n < LEAST_BLOCKS:
        return None
    freedom = max(1, round(estimate.freedom * (blocks - 1) / (estimate.n - 1)))
    half = t_quantile(1.0 - alpha / 2.0, freedom) * estimate.error * sqrt(estimate.n / blocks)
    return round(expm1(min(half, LARGEST_LOG)), 5)


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


def precision_words(precision: Precision) -> str:
    """E.g. "expected at 6 blocks: ±7.8 % of queries per second, ±12.1 % of CPU per query"."""
    widths = ", ".join(
        f"{half_width_words(width)} of {phrase_of(metric, precision.workloads).short_noun}"
        for metric, width in precision.half_widths.items()
    )
    return f"expected at {blocks(precision.blocks)}: {widths}"


def half_width_words(width: float) -> str:
    """E.g. "±7.8 %"."""
    return f"±{100 * width:.1f} %" if width <= MOST_PROMISED else "more than ±20 %"
