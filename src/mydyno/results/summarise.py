"""summary.json: effects, verdicts, noise floor and sentences, made from the rest of the study folder at any time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from mydyno.model.experiment import Experiment, Step
from mydyno.model.metrics import metric_source, ordered
from mydyno.model.plan import Plan
from mydyno.model.quantities import parse_bytes
from mydyno.model.records import RunRecord, ServerRecord, SliceRecord, StudyRecord
from mydyno.model.summary import CANARY_EVENT, CanaryRecord, EffectDetails, EffectRecord, RunSummary, StepLevel, Summary
from mydyno.results.answer import with_answer
from mydyno.results.conclusions import conclusions_of
from mydyno.results.costs import costs_of
from mydyno.results.families import families, first_label, margin_of
from mydyno.results.host_groups import host_groups_of
from mydyno.results.host_noise import without_unequal_steal
from mydyno.results.host_words import hosts_sentences
from mydyno.results.interleaved import InterleavedValues, interleaved_values
from mydyno.results.limits import limit_sentences, limits_of
from mydyno.results.published import compare_with_published
from mydyno.results.server_differences import server_differences
from mydyno.results.values import common_windows, values_of
from mydyno.servers.version import ServerVersion
from mydyno.stats.looks import LOOKS, last_look
from mydyno.stats.power import minimum_blocks
from mydyno.store.slices import ALONE_FILE, SLICES_FILE, read_slices
from mydyno.store.study_folder import StudyFolder
from mydyno.verdicts import Effect, Scope, decide_study, noise_floors
from mydyno.verdicts.words import blocks, listing
from mydyno.workloads.data import kind_of

CONTRACT_FIELDS = frozenset(EffectRecord.model_fields) - {"details"}
SETTING_TREATMENTS = ("variables", "environment", "sysctl")
"""Treatments of which the server or the kernel may take another value than the one set."""


def summarise(folder: StudyFolder) -> Summary:
    """Make the summary and write it. Raises UserError if the folder is damaged."""
    study = folder.study()
    experiment = study.experiment
    steps = experiment.resolved_steps
    runs = list(folder.runs())
    plan = folder.plan()
    slices = slices_of(folder, runs) if plan.design == "interleaved" else []
    interleaving = interleaved_of(folder, plan, experiment, runs, slices) if plan.design == "interleaved" else None
    windows = {} if interleaving else common_windows(steps, runs)
    if interleaving:
        summaries = tuple(_interleaved_summary(run, interleaving, steps) for run in runs)
    else:
        several = experiment.most_instances > 1
        summaries = tuple(_run_summary(run, values_of(folder, run, windows, several), steps) for run in runs)
        summaries = without_unequal_steal(summaries, experiment.gates.steal)
    look, alpha = look_of(plan, runs)
    due_blocks = first_finished(runs, look)
    examined = tuple(run for run in summaries if run.block in due_blocks)
    if plan.sequential and look is None:
        examined = ()
    scopes = {step.id: _scope(study, step, runs) for step in steps}
    measured = ordered({metric for run in summaries for values in run.values.values() for metric in values})
    floors: dict[str, dict[str, float]] = {}
    every = list(families(experiment, examined, measured, scopes))
    due = None if plan.sequential and look is None else alpha
    effects = decide_study(every, due, plan.sequential)
    for family in every:
        floors[family.metric.name] = {step: f.floor for step, f in noise_floors(family).items() if f.floor is not None}
    planned = len(plan.runs)
    records = tuple(effect_record(effect) for effect in effects)
    if interleaving:
        plain = [run.model_copy(update={"values": run.unadjusted}) for run in examined]
        unadjusted = decide_study(list(families(experiment, plain, measured, scopes)), due, plan.sequential)
        records = _with_unadjusted(records, unadjusted)
    counted_runs = [run for run in runs if run.block in due_blocks]
    costs = costs_of(experiment, counted_runs, examined, slices, records, due, _usable_cpus(study))
    host_groups = host_groups_of(study, summaries, records, alpha, lambda metric: margin_of(experiment, metric))
    limits = limits_of(runs, summaries, steps, _usable_cpus(study))
    conclusions = conclusions_of(experiment, summaries, records, limits)
    summary = Summary(
        experiment=experiment.name,
        question=experiment.question,
        study=study.study,
        state=_state(runs, planned),
        control=experiment.control,
        arms=tuple(arm.name for arm in experiment.arms),
        primary=experiment.verdict.primary,
        margin=margin_of(experiment, experiment.verdict.primary),
        steps=tuple(StepLevel.of(step) for step in steps),
        metrics={name: source.record() for name in measured if (source := metric_source(name)) is not None},
        windows=windows,
        runs=summaries,
        effects=records,
        costs=costs,
        noise_floor={name: floor for name, floor in floors.items() if floor},
        published=tuple(compare_with_published(experiment, records, limits)),
        server_differences=server_differences(runs),
        limits=limits,
        conclusions=conclusions,
        canaries=_canaries(folder),
        design=plan.design,
        look=look,
        alpha=alpha,
        interleaving=interleaving.record if interleaving else None,
        host_groups=host_groups,
        sentences=(
            *_sentences(experiment, effects, summaries, planned, len(plan.blocks)),
            *limit_sentences(limits, steps),
            *(conclusion.sentence for conclusion in conclusions),
        ),
    )
    summary = summary.model_copy(update={"sentences": (*summary.sentences, *hosts_sentences(summary))})
    summary = with_answer(summary, study, runs)
    folder.write_summary(summary)
    return summary


def _with_unadjusted(records: Sequence[EffectRecord], effects: Sequence[Effect]) -> tuple[EffectRecord, ...]:
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


def _usable_cpus(study: StudyRecord) -> dict[str, int]:
    """{host group: usable CPUs of its server host}; that of "" where there is one."""
    return {group: int(facts.get("cpus_usable", 1)) for group, facts in (study.hosts or {"": study.host}).items()}


def _canaries(folder: StudyFolder) -> tuple[CanaryRecord, ...]:
    events = [event for event in folder.journal.read() if event["event"] == CANARY_EVENT]
    return tuple(CanaryRecord.model_validate({k: e[k] for k in CanaryRecord.model_fields}) for e in events)


def _state(runs: list[RunRecord], planned: int) -> Any:
    if not any(run.valid for run in runs):
        return "failed"
    return "complete" if len(runs) == planned else "partial"


def look_of(plan: Plan, runs: Sequence[RunRecord]) -> tuple[int | None, float]:
    """(blocks of the look that is due, its error rate): the latest look reached, or None and 5 % without looks."""
    if not plan.sequential:
        return None, 0.05
    look = last_look(len({run.block for run in runs}))
    return look, LOOKS[look] if look is not None else 0.05


def first_finished(runs: Sequence[RunRecord], look: int | None) -> set[int]:
    """The blocks of a look: as many as finished first, all if there is no look.

    On several host groups blocks do not finish in the order of their numbers. A block that is made later must not
    change what an earlier look examined.
    """
    ended: dict[int, int] = {}
    for run in runs:
        ended[run.block] = max(run.ended_unix_ns, ended.get(run.block, 0))
    return set(sorted(ended, key=lambda block: (ended[block], block))[:look])


def slices_of(folder: StudyFolder, runs: Sequence[RunRecord]) -> list[SliceRecord]:
    """The slices of every finished block."""
    blocks = sorted({run.block for run in runs})
    return [one for block in blocks for one in read_slices(folder.block_path(block) / SLICES_FILE)]


def interleaved_of(
    folder: StudyFolder,
    plan: Plan,
    experiment: Experiment,
    runs: Sequence[RunRecord],
    slices: Sequence[SliceRecord],
) -> InterleavedValues:
    """The values of every lane, from the slices of every finished block."""
    blocks = sorted({run.block for run in runs})
    alone = [one for block in blocks for one in read_slices(folder.block_path(block) / ALONE_FILE)]
    return interleaved_values(experiment, slices, plan.client_untouched, folder.waited_s(), alone)


def _interleaved_summary(run: RunRecord, values: InterleavedValues, steps: Sequence[Step]) -> RunSummary:
    lane = (run.block, run.arm, run.copy_number)
    return _run_summary(run, values.adjusted.get(lane, {}), steps).model_copy(
        update={"unadjusted": values.unadjusted.get(lane, {})}
    )


def _run_summary(run: RunRecord, values: dict[str, dict[str, float]], steps: Sequence[Step]) -> RunSummary:
    failures = {step.id: run.failed for step in steps} if run.failed else {}
    failures |= {step.id: step.failed for step in run.steps if step.failed}
    return RunSummary(
        block=run.block,
        host_group=run.host_group,
        position=run.position,
        arm=run.arm,
        copy=run.copy_number,
        valid=run.valid,
        reasons=run.reasons,
        warnings=run.warnings,
        evidence=run.evidence,
        folder=run.folder,
        invalid_steps={step.id: step.reasons for step in run.steps if step.reasons},
        failures=failures,
        values=values,
    )


def _scope(study: StudyRecord, step: Step, runs: list[RunRecord]) -> Scope:
    servers = [server for run in runs for server in run.servers]
    with_sql = [server for server in servers if server.flavour != "memcached"] or servers
    pool = _common(with_sql, "innodb_buffer_pool_size")
    of_arm = {run.arm: " and ".join(dict.fromkeys(map(_server_name, run.servers))) for run in runs if run.servers}
    dates = sorted(datetime.fromtimestamp(run.started_unix_ns / 1e9, UTC).date().isoformat() for run in runs)
    durability = [
        f"{name}={value}"
        for name in ("innodb_flush_log_at_trx_commit", "sync_binlog")
        if (value := _common(with_sql, name)) is not None
    ]
    return Scope(
        workload=step.workload,
        server=listing(tuple(dict.fromkeys(map(_server_name, servers)))) if servers else "",
        hosts=(str(study.host.get("hostname", "this host")),),
        connections=step.connections,
        rate=step.rate,
        data_to_buffer_pool=kind_of(study.experiment.data).rows_bytes(study.experiment.data) / parse_bytes(int(pool))
        if pool
        else None,
        durability=", ".join(durability),
        first_date=dates[0] if dates else "",
        last_date=dates[-1] if dates else "",
        server_of=of_arm if len(set(of_arm.values())) > 1 else {},
    )


def _server_name(server: ServerRecord) -> str:
    return ServerVersion.parse(server.version).name


def _common(servers: Sequence[ServerRecord], variable: str) -> str | None:
    """The variable's value where it is the same on all servers: what an arm changes is no part of the scope."""
    values = {server.variables[variable] for server in servers if variable in server.variables}
    return values.pop() if len(values) == 1 else None


def effect_record(effect: Effect) -> EffectRecord:
    """The effect as summary.json has it."""
    plain = asdict(effect)
    plain["verdict"] = None if effect.verdict is None else effect.verdict.value
    details = {name: value for name, value in plain.items() if name not in CONTRACT_FIELDS}
    return EffectRecord(**{name: plain[name] for name in CONTRACT_FIELDS}, details=EffectDetails(**details))


def _sentences(
    experiment: Experiment, effects: list[Effect], runs: tuple[RunSummary, ...], planned: int, planned_blocks: int
) -> tuple[str, ...]:
    """The answer: the primary metric's sentences, then what limits them."""
    sentences = [effect.sentence for effect in effects if effect.primary]
    if len(experiment.arms) == 1:
        sentences.append(
            f"{experiment.control} is the only arm: this study shows its noise floor and compares nothing."
        )
    invalid = [run for run in runs if not run.valid]
    if invalid:
        causes = Counter(first_label(run.reasons) for run in invalid)
        words = ", ".join(f"{cause} ({count})" for cause, count in causes.most_common())
        sentences.append(f"{len(invalid)} of {len(runs)} runs are invalid and not used: {words}.")
        sentences += _settings_not_taken(invalid)
    if len(runs) < planned:
        sentences.append(f"{len(runs)} of {planned} planned runs were made; `mydyno resume` makes the rest.")
    contrasts = sum(effect.primary for effect in effects)
    fewest = minimum_blocks(max(1, contrasts))
    if planned_blocks < fewest and contrasts and experiment.design.time is None:
        sentences.append(
            f"{blocks(planned_blocks)} cannot show a difference in {contrasts} "
            f"comparison{'' if contrasts == 1 else 's'}: at least {fewest} are needed."
        )
    return tuple(sentences)


def _settings_not_taken(invalid: list[RunSummary]) -> list[str]:
    """What server or kernel made of settings that it rounded, clipped or ignored: a sentence per arm and setting."""
    sentences = (
        f"{run.arm} does not run with the settings that it declares: {one.text}."
        for run in invalid
        for one in run.evidence
        if not one.holds and one.treatment in SETTING_TREATMENTS
    )
    return list(dict.fromkeys(sentences))
