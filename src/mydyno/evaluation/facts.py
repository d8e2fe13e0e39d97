"""summary.json: effects, verdicts, noise floor and causes, made from the rest of the study folder at any time; and the
precision of an interleaved study so far and at its next look, with its words in the progress.

The precision contains nothing about any effect. It is from the noise of every contrast, as in the intervals at a look:
pooled over lanes, or its own where that is larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1, log1p, sqrt
from typing import Literal

from mydyno.analysis.base import Examined
from mydyno.analysis.catalogue import files_of, records_of
from mydyno.files.atomic import write_text
from mydyno.model.definition.experiment import Experiment, Step, ThresholdSpec
from mydyno.model.definition.plan import Plan
from mydyno.model.metrics import metric_source, ordered, phrase_of
from mydyno.model.stored.reasons import Reason, fact
from mydyno.model.stored.records import RunRecord, SliceRecord, StudyRecord
from mydyno.model.stored.summary import EffectRecord, RunSummary, Summary, Window
from mydyno.results.families import families, verdict_metrics
from mydyno.results.precision import alarm_of, first_finished, interim_analysis_of
from mydyno.results.values.blocks import declared_windows, is_host_noise, values_of, without_unequal_steal
from mydyno.results.values.doubts import found_of
from mydyno.results.values.interleaved import InterleavedValues, interleaved_values
from mydyno.results.values.step_slices import slices_of
from mydyno.stats.contrast import Estimate
from mydyno.stats.paired import LARGEST_LOG, t_quantile
from mydyno.store.samples import ALONE_FILE, KERNEL_FILE, PROFILED_FILE, SLICES_FILE, WAITS_FILE, damage_of, read_slices
from mydyno.store.study_folder import StudyFolder
from mydyno.treatments.coexistence import lasting_names
from mydyno.verdicts import decide_study, noise_floors
from mydyno.verdicts.decide import measure
from mydyno.verdicts.together import estimates_of
from mydyno.wording.numbers import blocks, half_width_text

RSS_AFTER = "server_rss_after_bytes"
APART = (PROFILED_FILE, WAITS_FILE, KERNEL_FILE)
"""Files of a block with slices in which causes were measured."""
OF_ALL_BLOCKS = ("cycles", "dropped_cycles", "steal_mean", "steal_max", "strangers_mean")
"""What the record of an interleaved study states of all finished blocks; the rest is of the examined ones."""


def summarise(folder: StudyFolder, *, running: bool = False) -> Summary:
    """Make the summary and write it, with the experiment that follows a screening. `running`: it lacks runs, and is not
    interrupted. Raises UserError if the folder is damaged.
    """
    summary = facts_of(folder, running=running)
    folder.write_summary(summary)
    for name, text in files_of(folder.study().experiment, summary).items():
        write_text(folder.path / name, text)
    return summary


def facts_of(
    folder: StudyFolder, thresholds: Sequence[ThresholdSpec] | None = None, *, running: bool = False
) -> Summary:
    """What the study's files show; `thresholds` in place of its own. Raises UserError if the folder is damaged."""
    study, plan, runs = folder.study(), folder.plan(), list(folder.runs())
    experiment, unfinished = study.experiment, folder.is_interrupted(plan)
    steps = experiment.resolved_steps
    folder.check_names(experiment, plan, runs)
    look, alpha = interim_analysis_of(plan, runs, experiment)
    due_blocks = first_finished(runs, look)
    counted_runs = [run for run in runs if run.block in due_blocks]
    slices = slices_of(folder, counted_runs) if plan.design != "blocks" else []
    interleaving = interleaved_of(folder, experiment, runs, due_blocks) if plan.design != "blocks" else None
    windows = {} if interleaving else declared_windows(steps)
    summaries = _summaries(folder, experiment, runs, interleaving, windows)
    timed = plan.sequential or (plan.design != "blocks" and experiment.design.time is not None)
    early = look is None and (timed or unfinished)
    examined = () if early else tuple(run for run in summaries if run.block in due_blocks)
    measured = _measured(summaries if early else examined)
    every = list(families(experiment, examined, measured))
    due = None if early else alpha
    at = (due, plan.schedule, experiment.verdict.error_rate)
    records = tuple(decide_study(every, *at))
    if interleaving:
        plain = [run.model_copy(update={"values": run.unadjusted}) for run in examined]
        records = _with_unadjusted(records, decide_study(list(families(experiment, plain, measured)), *at))
    if plan.design == "switchback" and lasting_names(experiment):
        records = tuple(map(_not_equivalent, records))
    named = any(step.driver.transaction_types for run in counted_runs for step in run.steps)
    beside = named + experiment.compares_statements
    found = records_of(
        Examined(
            experiment=experiment,
            runs=examined,
            alpha=alpha,
            slices=slices,
            families=every,
            effects=records,
            due=due is not None,
            alarm=alarm_of(records) is not None,
            path=folder.path,
            records=counted_runs,
            apart={name: slices_of(folder, counted_runs, name) for name in APART},
            alpha_of_causes=None if due is None else experiment.profile.rate_of_causes(due, beside),
            cpus=_usable_cpus(study),
            every_run=summaries,
            every_record=runs,
            hosts=study.hosts,
            plan=plan,
            thresholds=experiment.thresholds if thresholds is None else thresholds,
            interrupted=unfinished and not running,
        )
    )
    return Summary.of(
        study,
        state=state_of(runs, len(plan.runs)),
        metrics={name: source.record() for name in _measured(summaries) if (source := metric_source(name)) is not None},
        windows=windows,
        runs=summaries,
        effects=records,
        noise_floor={family.metric.name: floor for family in every if (floor := noise_floors(family))},
        found=found_of(counted_runs, summaries),
        design=plan.design,
        due=not early,
        look=look,
        looks=plan.schedule and dict(plan.schedule.rates),
        alpha=alpha,
        interleaving=interleaving.record if interleaving else None,
        **found,
    )


def _summaries(
    folder: StudyFolder,
    experiment: Experiment,
    runs: Sequence[RunRecord],
    interleaving: InterleavedValues | None,
    windows: dict[str, Window],
) -> tuple[RunSummary, ...]:
    """What each run measured."""
    steps = experiment.resolved_steps
    damage = {run.folder: words for run in runs if (words := damage_of(folder.samples_path(run.folder)))}
    if interleaving:  # its values are in the slices
        found = tuple(interleaved_summary(run, interleaving, steps) for run in runs)
        return tuple(_with_warning(run, damage.get(run.folder)) for run in found)
    several = experiment.most_instances > 1
    found = tuple(
        _run_summary(_unreadable(run, damage[run.folder]), {}, steps)
        if run.folder in damage
        else _run_summary(run, values_of(folder, run, windows, several), steps)
        for run in runs
    )
    return without_unequal_steal(found, experiment.validity.steal)


def _unreadable(run: RunRecord, words: str) -> RunRecord:
    """The run as invalid, since its values are lost."""
    return run.model_copy(update={"valid": False, "reasons": (*run.reasons, Reason(check="other", text=words))})


def _with_warning(run: RunSummary, words: str | None) -> RunSummary:
    return run.model_copy(update={"warnings": (*run.warnings, words)}) if words else run


def _not_equivalent(effect: EffectRecord) -> EffectRecord:
    """An effect without the verdict "equivalent", of arms that may leave something behind for each other's slices."""
    if effect.verdict != "equivalent":
        return effect
    details = effect.details.model_copy(update={"facts": (fact("may_last"),)})
    return effect.model_copy(update={"verdict": "inconclusive", "details": details})


def _with_unadjusted(records: Sequence[EffectRecord], effects: Sequence[EffectRecord]) -> tuple[EffectRecord, ...]:
    """The effects with what the same tests say of the values before the adjustment for the host's speed."""
    found = {of.contrast: (of.ratio, of.ci_low, of.ci_high) for of in effects if of.ratio is not None}
    return tuple(record.model_copy(update={"unadjusted": found.get(record.contrast)}) for record in records)


def _usable_cpus(study: StudyRecord) -> dict[str, float]:
    """{host group: usable CPUs of its server host}; that of "" where there is one."""
    hosts = study.hosts or {"": study.server_host or study.host}
    return {group: float(facts.get("cpus_usable", 1)) for group, facts in hosts.items()}


def state_of(runs: Sequence[RunRecord], planned: int) -> Literal["complete", "partial", "failed"]:
    """The state of a study with these runs of so many."""
    if not any(run.valid for run in runs):
        return "partial" if runs and all(map(is_host_noise, runs)) else "failed"
    return "complete" if len(runs) == planned else "partial"


def interleaved_of(
    folder: StudyFolder, experiment: Experiment, runs: Sequence[RunRecord], due_blocks: set[int]
) -> InterleavedValues:
    """The values of every lane. Those of the blocks that a look examines come from the slices of these blocks alone.

    Coefficients and medians of all blocks would change what an examined look showed with every block made after it.
    Later blocks have values from all blocks; what the host gave is stated of all.
    """

    def of(some: Sequence[RunRecord]) -> InterleavedValues:
        alone = slices_of(folder, some, ALONE_FILE)
        return interleaved_values(experiment, slices_of(folder, some), folder.waited_s(), alone)

    due = of([run for run in runs if run.block in due_blocks])
    if all(run.block in due_blocks for run in runs):
        return due
    every = of(runs)
    later = {lane for lane in (*every.adjusted, *every.unadjusted) if lane[0] not in due_blocks}
    host = {name: getattr(every.record, name) for name in OF_ALL_BLOCKS}
    return InterleavedValues(
        due.adjusted | {lane: steps for lane, steps in every.adjusted.items() if lane in later},
        due.unadjusted | {lane: steps for lane, steps in every.unadjusted.items() if lane in later},
        due.record.model_copy(update=host),
    )


def _measured(runs: Sequence[RunSummary]) -> list[str]:
    """The metrics that any of these runs has."""
    return ordered({metric for run in runs for values in run.values.values() for metric in values})


def interleaved_summary(run: RunRecord, values: InterleavedValues, steps: Sequence[Step]) -> RunSummary:
    """What a run of an interleaved study measured."""
    lane = (run.block, run.arm, run.copy_number)
    after = {step.id: {RSS_AFTER: step.rss_after_bytes} for step in run.steps if step.rss_after_bytes is not None}
    adjusted, unadjusted = (
        {step: own | after.get(step, {}) for step, own in of.get(lane, {}).items()}
        for of in (values.adjusted, values.unadjusted)
    )
    return _run_summary(run, adjusted, steps).model_copy(update={"unadjusted": unadjusted})


def _run_summary(run: RunRecord, values: dict[str, dict[str, float]], steps: Sequence[Step]) -> RunSummary:
    failures = {step.id: run.failed for step in steps} if run.failed else {}
    failures |= {step.id: step.failed for step in run.steps if step.failed}
    warnings = (*run.warnings, *(f"{step.id}: {words}" for step in run.steps for words in step.warnings))
    return RunSummary.of(run, warnings=warnings, failures=failures, values=values)


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
    made, slices = blocks_so_far(folder)
    if made < LEAST_BLOCKS:
        return None
    experiment = folder.study().experiment
    metrics = verdict_metrics(experiment)
    compared = [metric for declared in experiment.verdict.compare for metric in declared.metrics]
    found = interleaved_values(experiment, slices, only=[*metrics, *compared])
    runs = [interleaved_summary(run, found, experiment.resolved_steps) for run in folder.runs() if run.block <= made]
    members = [
        one
        for family in families(experiment, runs, _measured(runs))
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


def blocks_so_far(folder: StudyFolder) -> tuple[int, list[SliceRecord]]:
    """The number of finished blocks, and their slices."""
    made = 0
    slices: list[SliceRecord] = []
    while folder.block_path(made + 1).is_dir():
        made += 1
        slices += read_slices(folder.block_path(made) / SLICES_FILE)
    return made, slices


def carry_over_so_far(folder: StudyFolder, washout_s: float) -> dict[str, float]:
    """step → change of throughput by the arm loaded before a slice, of the slices with at least this washout."""
    own = [one for one in blocks_so_far(folder)[1] if one.washout_s is None or one.washout_s >= washout_s]
    if not own:
        return {}
    # The slopes for throughput are all that it takes of the values.
    return interleaved_values(folder.study().experiment, own, only=["qps"]).record.carry_over


def precision_words(precision: Precision) -> str:
    """E.g. "expected at 6 blocks: ±7.8 % of queries per second, ±12.1 % of CPU per query"."""
    widths = ", ".join(
        f"{half_width_text(width)} of {phrase_of(metric, precision.workloads).short_noun}"
        for metric, width in precision.half_widths.items()
    )
    return f"expected at {blocks(precision.blocks)}: {widths}"
