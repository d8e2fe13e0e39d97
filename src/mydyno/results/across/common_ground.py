"""What studies have in common, and why the rest cannot be compared.

Two studies have a contrast in common if metric, step, arm and control have the same names, the step loads the same
workload with the same options, and the metric means the same. Data, server, settings and host may differ: they are what
a comparison is about, and are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mydyno.language import colon, joined, listing, names, tr, tr_plural
from mydyno.model.definition.experiment import Step
from mydyno.model.stored.comparison import NotCompared
from mydyno.model.stored.summary import EffectRecord
from mydyno.results.across.labels import label
from mydyno.results.across.saved import SavedStudy
from mydyno.results.across.settings import server_variables, treatments

Contrast = tuple[str, str, str, str]
"""(metric, step, arm, control)."""


@dataclass(frozen=True)
class CommonGround:
    """Steps and contrasts that all studies have, in the order of the first one, and what was refused."""

    steps: tuple[Step, ...]
    contrasts: tuple[Contrast, ...]
    refused: tuple[NotCompared, ...]

    @property
    def step_ids(self) -> tuple[str, ...]:
        """The names of the common steps."""
        return tuple(step.id for step in self.steps)


def common_ground(studies: Sequence[SavedStudy]) -> CommonGround:
    """What two or more studies have in common."""
    steps, refused = _steps(studies)
    metrics, unlike = _metrics(studies)
    unlike += _metrics_of_some(studies)
    refused += unlike
    ids = {step.id for step in steps}
    of_each = [effects_by_contrast(study) for study in studies]
    contrasts = []
    for contrast in of_each[0]:
        metric, step, *_ = contrast
        if step not in ids or metric not in metrics:
            continue
        if all(contrast in found for found in of_each):
            contrasts.append(contrast)
    if steps:
        refused += _arms(studies)
    return CommonGround(tuple(steps), tuple(contrasts), tuple(refused))


def effects_by_contrast(study: SavedStudy) -> dict[Contrast, EffectRecord]:
    """The study's effects; none before the first look of a study with looks."""
    if study.before_first_look:
        return {}
    return {(one.metric, one.step, one.arm, one.control): one for one in study.summary.effects}


def differing_definition(studies: Sequence[SavedStudy], arm: str) -> str:
    """Which of an arm's treatments differ between studies: "variables.innodb_io_capacity"; empty if none does."""
    known = [treatments(study.study.experiment.arm(arm)) for study in studies]
    every = dict.fromkeys(name for one in known for name in one)
    return names(name for name in every if len({one.get(name) for one in known}) > 1)


def same_control(first: SavedStudy, second: SavedStudy, control: str) -> bool:
    """Whether a control is the same server with the same settings, treatments, data and host in both studies."""
    if differing_definition((first, second), control) or first.server_of.get(control) != second.server_of.get(control):
        return False
    runs = [next((run for run in one.runs if run.arm == control), None) for one in (first, second)]
    variables = [server_variables(run) for run in runs]
    builds = [one.study.versions.get("server") for one in (first, second)]
    data = [one.study.experiment.data for one in (first, second)]
    return (
        None not in runs
        and variables[0] == variables[1]
        and builds[0] == builds[1]
        and data[0] == data[1]
        and first.host == second.host
    )


def _steps(studies: Sequence[SavedStudy]) -> tuple[list[Step], list[NotCompared]]:
    known = [{step.id: step for step in study.study.experiment.resolved_steps} for study in studies]
    common, refused = [], []
    for name in dict.fromkeys(name for steps in known for name in steps):
        having = [label(place) for place, steps in enumerate(known) if name in steps]
        if len(having) < len(known):
            which = listing(having)
            reason = tr_plural("only {studies} has it", "only {studies} have it", len(having), studies=which)
            refused.append(NotCompared(what=tr("step {step}", step=name), reason=reason))
            continue
        options = {_options(steps[name]) for steps in known}
        if len(options) > 1:
            words = joined([label(place) + colon() + _options(steps[name]) for place, steps in enumerate(known)])
            reason = tr("the workload's options differ ({options})", options=words)
            refused.append(NotCompared(what=tr("step {step}", step=name), reason=reason))
            continue
        common.append(known[0][name])
    return common, refused


def _options(step: Step) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(step.options.items())) or tr("defaults")


def _metrics(studies: Sequence[SavedStudy]) -> tuple[set[str], list[NotCompared]]:
    """(metrics that mean the same in all studies, those that do not with the reason)."""
    known = [study.summary.metrics for study in studies]
    common, refused = set(), []
    for name in dict.fromkeys(name for metrics in known for name in metrics):
        defined = [metrics[name] for metrics in known if name in metrics]
        if len(defined) < len(known):
            continue
        if len({(one.unit, one.better, one.description) for one in defined}) > 1:
            words = joined(
                [f"{label(place)}{colon()}{one.description} ({one.unit})" for place, one in enumerate(defined)]
            )
            reason = tr("its definition differs ({definitions})", definitions=words)
            refused.append(NotCompared(what=tr("metric {metric}", metric=name), reason=reason))
            continue
        common.add(name)
    return common, refused


def _metrics_of_some(studies: Sequence[SavedStudy]) -> list[NotCompared]:
    """Metrics that have verdicts in some of the studies and do not exist in others."""
    judged = [
        dict.fromkeys(one.metric for one in effects_by_contrast(study).values() if one.verdict) for study in studies
    ]
    refused = []
    for name in dict.fromkeys(name for of in judged for name in of):
        having = [label(place) for place, study in enumerate(studies) if name in study.summary.metrics]
        if len(having) < len(studies):
            reason = tr("only {studies} measured it", studies=listing(having))
            refused.append(NotCompared(what=tr("metric {metric}", metric=name), reason=reason))
    return refused


def _arms(studies: Sequence[SavedStudy]) -> list[NotCompared]:
    """Contrasts with verdicts that not all studies have."""
    refused = []
    pairs = [list(dict.fromkeys((arm, control) for _, _, arm, control in effects_by_contrast(one))) for one in studies]
    for arm, control in dict.fromkeys(pair for of in pairs for pair in of):
        having = [label(place) for place, of in enumerate(pairs) if (arm, control) in of]
        missing = [place for place, of in enumerate(pairs) if (arm, control) not in of]
        if not missing:
            continue
        early = [label(place) for place in missing if studies[place].before_first_look]
        why = (
            tr("{studies} has not reached its first look", studies=listing(early)) if early
            else tr("only in {studies}", studies=listing(having))
        )  # fmt: skip
        refused.append(NotCompared(what=tr("{arm} against {control}", arm=arm, control=control), reason=why))
    return refused
