"""A study as reports see it: everything read once from the folder, frozen, with the look-ups that formats share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from mydyno.language import listing
from mydyno.model.definition.plan import Plan
from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.records import RunRecord, StudyRecord
from mydyno.model.stored.summary import (
    EffectRecord,
    HostsEffect,
    RunSummary,
    StepLevel,
    Summary,
    block_groups,
    step_words,
)
from mydyno.results.precision import used_values
from mydyno.stats.percentiles import absolute_mean
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.numbers import metric_name


@dataclass(frozen=True)
class StoredResult:
    """What is in a study folder. A folder without summary.json gives a summary without effects, state "partial"."""

    folder: StudyFolder
    study: StudyRecord
    plan: Plan
    records: dict[str, RunRecord]
    """Every finished run's run.json by its folder."""
    summary: Summary
    evaluated: bool = True
    """Whether there is a summary.json."""

    @classmethod
    def load(cls, folder: StudyFolder) -> Self:
        """Read study.json, plan.json, every run.json and summary.json. Raises UserError if one is damaged."""
        study, plan = folder.study(), folder.plan()
        records = {record.folder: record for record in folder.runs()}
        summary = folder.summary()
        folder.check_names(study.experiment, plan, tuple(records.values()))
        return cls(folder, study, plan, records, summary or _empty_summary(study, records), summary is not None)

    @cached_property
    def mydyno_versions(self) -> str:
        """Of the program that began the study, and of those that resumed it."""
        resumed = (event.get("mydyno_version") for event in self.folder.journal.read())
        versions = (self.study.mydyno_version, *(str(one) for one in resumed if one))
        return listing(list(dict.fromkeys(versions)))

    @cached_property
    def before_first_look(self) -> bool:
        """Whether no analysis is due yet: then no effect is shown."""
        return not self.summary.due

    @cached_property
    def runs(self) -> tuple[RunSummary, ...]:
        """Every finished run in the order of execution; values that are not finite numbers are left out."""
        return tuple(
            run.model_copy(update={"values": {step: _finite(values) for step, values in run.values.items()}})
            for run in sorted(self.summary.runs, key=lambda run: (run.block, run.position))
        )

    @property
    def steps(self) -> tuple[StepLevel, ...]:
        """Every step, as the experiment lists them."""
        return self.summary.steps

    @cached_property
    def workloads(self) -> tuple[str, ...]:
        """The workloads in the order of the experiment."""
        return tuple(dict.fromkeys(step.workload for step in self.steps))

    def metric_name(self, metric: str) -> str:
        """A metric's name for a heading of this study."""
        return metric_name(metric, self.workloads)

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """The arms, the control first."""
        return tuple(dict.fromkeys((self.summary.control, *self.summary.arms)))

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that at least one run has a number for: the primary one first, then as in the summary."""
        present = {metric for run in self.runs for values in run.values.values() for metric in values}
        order = dict.fromkeys((self.summary.primary, *self.summary.metrics, *sorted(present)))
        return tuple(metric for metric in order if metric in present)

    @cached_property
    def any_valid(self) -> bool:
        """Whether a single step of a single run may be used."""
        return any(run.usable(step.id) for run in self.runs for step in self.steps)

    def steps_of_workload(self, workload: str) -> tuple[StepLevel, ...]:
        """The steps of one workload."""
        return tuple(step for step in self.steps if step.workload == workload)

    def values(self, metric: str, step: str) -> Iterator[tuple[RunSummary, float, bool]]:
        """Every run's number of a metric at a step in the order of execution, and whether it may be used."""
        for run in self.runs:
            value = run.values.get(step, {}).get(metric)
            if value is not None:
                yield run, value, run.usable(step)

    def level_of(self, metric: str, step: str, arm: str) -> float | None:
        """An arm's absolute value: the mean of its usable runs, of both copies for the control; None without one."""
        values = [value for run, value, used in self.values(metric, step) if used and run.arm == arm]
        return absolute_mean(values) if values else None

    @cached_property
    def unused_steps(self) -> tuple[tuple[RunSummary, StepLevel, tuple[Reason, ...]], ...]:
        """(run, step, reasons) of every step of a valid run that is not used."""
        known = {step.id: step for step in self.steps}
        return tuple(
            (run, known[step], reasons)
            for run in self.runs
            if run.valid
            for step, reasons in run.invalid_steps.items()
            if step in known
        )

    def effects(self, metric: str, step: str | None = None) -> tuple[EffectRecord, ...]:
        """The effects on a metric, of one step or of all, in the order of the arms."""
        return tuple(
            effect for effect in self.summary.effects if effect.metric == metric and step in (None, effect.step)
        )

    @cached_property
    def group_of(self) -> dict[int, str]:
        """{block: the host group that executed it}; empty in a study of one."""
        return block_groups(self.summary.runs)

    def effect_of(self, one: HostsEffect) -> EffectRecord | None:
        """The effect of the same contrast over all host groups."""
        return next((of for of in self.summary.effects if of.contrast == one.contrast), None)

    @cached_property
    def builds(self) -> dict[tuple[str, int], Mapping[str, Any]]:
        """{(arm, build): what the evidence of its first run has of it} of servers built from source."""
        found: dict[tuple[str, int], Mapping[str, Any]] = {}
        for run in self.runs:
            for evidence in run.evidence:
                facts = evidence.facts.get("build")
                if evidence.treatment == "server" and isinstance(facts, dict):
                    found.setdefault((run.arm, int(facts["layout"])), facts)
        return dict(sorted(found.items(), key=lambda item: (self.arms.index(item[0][0]), item[0][1])))

    @cached_property
    def several_controls(self) -> bool:
        """Whether arms are compared with more than the study's own control."""
        return any(effect.control != self.summary.control for effect in self.summary.effects)

    def contrast_name(self, one: EffectRecord | HostsEffect) -> str:
        """The arm, and what it is compared with where that is not always the same."""
        return f"{one.arm} against {one.control}" if self.several_controls else one.arm

    def contrast_heading(self, one: EffectRecord | HostsEffect) -> str:
        """The same with the step where there are several."""
        return ", ".join((self.contrast_name(one), *self.step_headings(one.step)))

    def step_heading(self, step: StepLevel) -> str:
        """A step as groups of tables name it."""
        return step_words(self.steps, step.id)

    def step_headings(self, step: str) -> list[str]:
        """That of a step by its id, where there are several."""
        return [self.step_heading(one) for one in self.steps if one.id == step and len(self.steps) > 1]

    @cached_property
    def relative_to(self) -> str:
        """What effects are relative to, for captions."""
        return "the control that it names" if self.several_controls else self.summary.control

    def margin_of(self, metric: str) -> float | None:
        """The margin within which a metric is judged equivalent; None for one without verdicts, but for latencies."""
        judged = metric in (self.summary.primary, *self.summary.also_primary) or any(
            effect.verdict for effect in self.effects(metric)
        )
        verdict = self.study.experiment.verdict
        return verdict.margin_of(metric) if judged or metric.startswith("latency_") else None

    def block_ratios(self, metric: str, step: str, arm: str, copy_number: int = 1) -> dict[int, float]:
        """{block: arm's run / control's first run}, of the blocks where both are valid and above zero."""
        base, own = (self.summary.control, 1), (arm, copy_number)
        found = used_values(self.runs, metric, step).items()
        return {block: of[own] / of[base] for block, of in found if base in of and own in of}


def joined_reasons(run: RunSummary, step: str) -> str:
    """Why a run's step is not used, on one line: the run's reasons, the step's own, and the arm's failure."""
    failed = (f"the arm failed: {run.failures[step]}",) if step in run.failures else ()
    closed = (*run.reasons, *run.invalid_steps.get(step, ()))
    return "; ".join([*(reason.sentence for reason in closed), *failed])


def _finite(values: dict[str, float]) -> dict[str, float]:
    return {metric: value for metric, value in values.items() if math.isfinite(value)}


def _empty_summary(study: StudyRecord, records: dict[str, RunRecord]) -> Summary:
    """The summary of a study that was never evaluated: its plan and the validity of its runs, without numbers."""
    runs = tuple(map(RunSummary.of, records.values()))
    return Summary.of(study, state="partial", metrics={}, runs=runs, effects=(), noise_floor={})
