"""summary.json: effects, verdicts, noise floor and causes, made from the rest of the study folder at any time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mydyno.analysis.base import Examined
from mydyno.analysis.catalogue import files_of, records_of
from mydyno.files.atomic import write_text
from mydyno.model.definition.experiment import Experiment, Step
from mydyno.model.metrics import metric_source, ordered
from mydyno.model.stored.reasons import Reason, fact
from mydyno.model.stored.records import RunRecord, StudyRecord
from mydyno.model.stored.summary import EffectRecord, RunSummary, StepLevel, Summary, Window
from mydyno.results.families import families
from mydyno.results.gate import is_interrupted
from mydyno.results.precision import alarm_of, first_finished, interim_analysis_of
from mydyno.results.values.blocks import declared_windows, values_of
from mydyno.results.values.doubts import found_of
from mydyno.results.values.host_noise import is_host_noise, without_unequal_steal
from mydyno.results.values.interleaved import InterleavedValues, interleaved_values
from mydyno.results.values.step_slices import slices_of
from mydyno.store.samples import damage_of
from mydyno.store.slices import ALONE_FILE, KERNEL_FILE, PROFILED_FILE, WAITS_FILE
from mydyno.store.study_folder import StudyFolder
from mydyno.treatments.coexistence import lasting_names
from mydyno.verdicts import decide_study, noise_floors

RSS_AFTER = "server_rss_after_bytes"
APART = (PROFILED_FILE, WAITS_FILE, KERNEL_FILE)
"""Files of a block with slices in which causes were measured."""
OF_ALL_BLOCKS = ("cycles", "dropped_cycles", "steal_mean", "steal_max", "strangers_mean")
"""What the record of an interleaved study states of all finished blocks; the rest is of the examined ones."""


def summarise(folder: StudyFolder) -> Summary:
    """Make the summary and write it, with the experiment that follows a screening. Raises UserError if the folder is
    damaged.
    """
    summary = facts_of(folder)
    folder.write_summary(summary)
    for name, text in files_of(folder.study().experiment, summary).items():
        write_text(folder.path / name, text)
    return summary


def facts_of(folder: StudyFolder) -> Summary:
    """What the study's files show. Raises UserError if the folder is damaged."""
    study = folder.study()
    experiment = study.experiment
    steps = experiment.resolved_steps
    runs = list(folder.runs())
    plan = folder.plan()
    folder.check_names(experiment, plan, runs)
    look, alpha = interim_analysis_of(plan, runs, experiment)
    due_blocks = first_finished(runs, look)
    counted_runs = [run for run in runs if run.block in due_blocks]
    slices = slices_of(folder, counted_runs) if plan.design != "blocks" else []
    interleaving = interleaved_of(folder, experiment, runs, due_blocks) if plan.design != "blocks" else None
    windows = {} if interleaving else declared_windows(steps)
    summaries = _summaries(folder, experiment, runs, interleaving, windows)
    timed = plan.sequential or (plan.design != "blocks" and experiment.design.time is not None)
    early = look is None and (timed or is_interrupted(folder, plan))
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
        )
    )
    return Summary(
        experiment=experiment.name,
        question=experiment.question,
        study=study.study,
        state=state_of(runs, len(plan.runs)),
        control=experiment.control,
        arms=tuple(arm.name for arm in experiment.arms),
        primary=experiment.verdict.leading,
        also_primary=experiment.verdict.primary[1:],
        margin=experiment.verdict.margin_of(experiment.verdict.leading),
        steps=tuple(StepLevel.of(step) for step in steps),
        metrics={name: source.record() for name in _measured(summaries) if (source := metric_source(name)) is not None},
        windows=windows,
        runs=summaries,
        effects=records,
        noise_floor={family.metric.name: floor for family in every if (floor := noise_floors(family))},
        found=found_of(counted_runs),
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
    found = {
        (effect.metric, effect.step, effect.arm, effect.control): (effect.ratio, effect.ci_low, effect.ci_high)
        for effect in effects
        if effect.ratio is not None
    }
    return tuple(
        record.model_copy(update={"unadjusted": found.get((record.metric, record.step, record.arm, record.control))})
        for record in records
    )


def _usable_cpus(study: StudyRecord) -> dict[str, float]:
    """{host group: usable CPUs of its server host}; that of "" where there is one."""
    return {group: float(facts.get("cpus_usable", 1)) for group, facts in (study.hosts or {"": study.host}).items()}


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
