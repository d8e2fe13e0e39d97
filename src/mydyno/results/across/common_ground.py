"""What studies have in common, and why the rest cannot be compared.

Two studies have a contrast in common if metric, step, arm and control have the same names, the step loads the same
workload with the same options, and the metric means the same. Data, server, settings and host may differ: they are what
a comparison is about, and are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mydyno.model.definition.experiment import Step
from mydyno.model.stored.summary import EffectRecord
from mydyno.results.across.saved import SavedStudy
from mydyno.results.across.settings import server_variables, treatments

Contrast = tuple[str, str, str, str]
"""(metric, step, arm, control)."""


@dataclass(frozen=True, slots=True)
class Refused:
    """What is not the same in all studies: they lack it (`having` are the places of the others), it has not been
    evaluated yet (`early`), or each defines it in its own way.
    """

    kind: Literal["step", "metric", "contrast"]
    name: str
    control: str = ""
    """Of a contrast."""
    having: tuple[int, ...] = ()
    early: tuple[int, ...] = ()
    definitions: tuple[str, ...] = ()
    """Options of a step in each study, or meaning and unit of a metric."""


@dataclass(frozen=True)
class CommonGround:
    """Steps and contrasts that all studies have, in the order of the first one, and what was refused."""

    steps: tuple[Step, ...]
    contrasts: tuple[Contrast, ...]
    refused: tuple[Refused, ...]

    @property
    def step_ids(self) -> tuple[str, ...]:
        """The names of the common steps."""
        return tuple(step.id for step in self.steps)

    @property
    def unlike_metrics(self) -> frozenset[str]:
        """The metrics that not all studies have with one meaning."""
        return frozenset(one.name for one in self.refused if one.kind == "metric")


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


def differing_definition(studies: Sequence[SavedStudy], arm: str) -> tuple[str, ...]:
    """Which of an arm's treatments differ between studies: "variables.innodb_io_capacity"."""
    known = [treatments(study.study.experiment.arm(arm)) for study in studies]
    every = dict.fromkeys(name for one in known for name in one)
    return tuple(name for name in every if len({one.get(name) for one in known}) > 1)


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


def _steps(studies: Sequence[SavedStudy]) -> tuple[list[Step], list[Refused]]:
    known = [{step.id: step for step in study.study.experiment.resolved_steps} for study in studies]
    common, refused = [], []
    for name in dict.fromkeys(name for steps in known for name in steps):
        having = tuple(place for place, steps in enumerate(known) if name in steps)
        if len(having) < len(known):
            refused.append(Refused("step", name, having=having))
            continue
        options = tuple(_options(steps[name]) for steps in known)
        if len(set(options)) > 1:
            refused.append(Refused("step", name, definitions=options))
            continue
        common.append(known[0][name])
    return common, refused


def _options(step: Step) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(step.options.items()))


def _metrics(studies: Sequence[SavedStudy]) -> tuple[set[str], list[Refused]]:
    """(metrics that mean the same in all studies, those that do not with the reason)."""
    known = [study.summary.metrics for study in studies]
    common, refused = set(), []
    for name in dict.fromkeys(name for metrics in known for name in metrics):
        defined = [metrics[name] for metrics in known if name in metrics]
        if len(defined) < len(known):
            continue
        if len({(one.unit, one.better, one.description) for one in defined}) > 1:
            definitions = tuple(f"{one.description} ({one.unit})" for one in defined)
            refused.append(Refused("metric", name, definitions=definitions))
            continue
        common.add(name)
    return common, refused


def _metrics_of_some(studies: Sequence[SavedStudy]) -> list[Refused]:
    """Metrics that have verdicts in some of the studies and do not exist in others."""
    judged = [
        dict.fromkeys(one.metric for one in effects_by_contrast(study).values() if one.verdict) for study in studies
    ]
    refused = []
    for name in dict.fromkeys(name for of in judged for name in of):
        having = tuple(place for place, study in enumerate(studies) if name in study.summary.metrics)
        if len(having) < len(studies):
            refused.append(Refused("metric", name, having=having))
    return refused


def _arms(studies: Sequence[SavedStudy]) -> list[Refused]:
    """Contrasts with verdicts that not all studies have."""
    refused = []
    pairs = [list(dict.fromkeys((arm, control) for _, _, arm, control in effects_by_contrast(one))) for one in studies]
    for arm, control in dict.fromkeys(pair for of in pairs for pair in of):
        having = tuple(place for place, of in enumerate(pairs) if (arm, control) in of)
        missing = [place for place, of in enumerate(pairs) if (arm, control) not in of]
        if missing:
            early = tuple(place for place in missing if studies[place].before_first_look)
            refused.append(Refused("contrast", arm, control, having, early))
    return refused
