"""All studies of one experiment on one host: effects and levels in order of time, and where they changed for good.

A series has one value for each study, with the error of that study. Studies of another host, of other data or load, or
with an A/A alarm are left out, with the reason. All series together show a change where none is in at most 5 % of
histories: each one is tested at 5 % divided by their number (stats/level_changes.py).

How much an effect differs from session to session on a host is known from all its comparable studies. Two sessions show
a difference, but not whether sessions differ as much when nothing was changed. From four comparable studies on, the sd
between sessions is known (stats/level_changes.py: from neighbours, so that one change of level in between does not
enter it), and is part of the interval of every difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from mydyno.errors import MydynoError, UserError
from mydyno.model.definition.problems import with_guess
from mydyno.model.stored.comparison import LeftOut
from mydyno.model.stored.summary import StepLevel
from mydyno.results.across.common_ground import Contrast, differing_definition, effects_by_contrast
from mydyno.results.across.saved import SavedStudy, host_difference, host_identity, without_copies
from mydyno.results.across.series import Analysed, Key, Measured, analysed, measured
from mydyno.results.across.settings import data_settings, file_settings, step_settings
from mydyno.results.precision import alarm_of
from mydyno.stats.level_changes import FEWEST_SESSIONS, moderated, session_sd
from mydyno.store.study_folder import studies_below

ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Selection:
    """Which series are wanted; None: the primary metric, every step, the effect of every arm and the control's level.

    With an arm: its effect and its level. `host` is a host name; None: that of the newest study.
    """

    arm: str | None = None
    step: str | None = None
    metric: str | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Unlike:
    """Why a study is not comparable with the newest one: `of` is what distinguishes it."""

    why: Literal["copy", "host", "early", "failed", "alarm", "data", "load", "arm"]
    of: tuple[str, ...] = ()
    arm: str = ""


@dataclass(frozen=True, slots=True)
class Choices:
    """What a Selection may name: of the study that the others are compared with."""

    arms: tuple[str, ...]
    steps: tuple[StepLevel, ...]
    metrics: tuple[str, ...]
    primary: str


@dataclass(frozen=True)
class FoundStudies:
    """The studies of a folder that can be read, oldest first, and the others with the reason."""

    studies: tuple[SavedStudy, ...]
    unreadable: tuple[LeftOut, ...]


def find_studies(folder: Path) -> FoundStudies:
    """Every study below a folder; what is damaged, half-written or of another format is named, not fatal."""
    return read_studies(studies_below(folder))


def read_studies(paths: Sequence[Path]) -> FoundStudies:
    """These studies."""
    found, unreadable = [], []
    for path in paths:
        try:
            found.append(SavedStudy.read(path))
        except MydynoError as error:
            unreadable.append(LeftOut(study=path.name, reason=_short(error.message, path)))
    found.sort(key=lambda study: (study.study.created_unix_ns, study.name))
    return FoundStudies(tuple(found), tuple(unreadable))


@dataclass(frozen=True)
class FoundHistory:
    """The usable studies, those that are left out with the reason, and the series."""

    newest: SavedStudy
    studies: tuple[SavedStudy, ...]
    unreadable: tuple[LeftOut, ...]
    unlike: tuple[tuple[SavedStudy, Unlike], ...]
    series: tuple[Analysed, ...]


def found_history(found: FoundStudies, experiment: str, wanted: Selection) -> FoundHistory:
    """The history of an experiment among these studies.

    Raises UserError if none of them is usable, or for an arm, step, metric or host that is not among them.
    """
    studies, copies = without_copies(found.studies)
    found = replace(found, studies=tuple(studies))
    of_experiment = _studies_of(found, experiment)
    unlike = [(copy, Unlike("copy", (of.name,))) for copy, of in copies if of.summary.experiment == experiment]
    newest = _newest(of_experiment, wanted.host)
    usable = []
    for study in of_experiment:
        if reason := why_left_out(study, newest):
            unlike.append((study, reason))
        else:
            usable.append(study)
    keys = _keys(newest, wanted)
    several = [_of_series(usable, newest, key) for key in keys]
    several = [one for one in several if one.studies]
    return FoundHistory(
        newest,
        tuple(usable),
        tuple(_unreadable_of(found, experiment)),
        tuple(unlike),
        tuple(analysed(one, ALPHA / len(several)) for one in several),
    )


def choices_of(found: FoundStudies, experiment: str, host: str | None = None) -> Choices:
    """What a Selection of this experiment's history may name. Raises UserError as history_of() does."""
    summary = _newest(_studies_of(found, experiment), host).summary
    return Choices(summary.arms, summary.steps, tuple(summary.metrics), summary.primary)


def _studies_of(found: FoundStudies, experiment: str) -> list[SavedStudy]:
    of_experiment = [study for study in found.studies if study.summary.experiment == experiment]
    if not of_experiment:
        names = sorted({study.summary.experiment for study in found.studies})
        left = _unreadable_of(found, experiment)
        reasons = f" ({left[0].study}: {left[0].reason})" if left else ""
        raise UserError(f"there is no readable study of {experiment}{reasons}", _among(experiment, names))
    return of_experiment


def _unreadable_of(found: FoundStudies, experiment: str) -> list[LeftOut]:
    return [one for one in found.unreadable if one.study.startswith(f"{experiment}-")]


def _newest(studies: Sequence[SavedStudy], host: str | None) -> SavedStudy:
    """The study that the others are compared with: the newest one with effects, on the host that was named."""
    on_host = [study for study in studies if host is None or study.host == host]
    if not on_host:
        names = sorted({study.host for study in studies})
        raise UserError(f"--host {host}: no study of this experiment ran there", _among(host or "", names))
    return next((study for study in reversed(on_host) if not study.before_first_look), on_host[-1])


def why_left_out(study: SavedStudy, newest: SavedStudy) -> Unlike | None:
    """Why a study is not comparable with the newest one; None if it is."""
    if host_identity(study) != host_identity(newest):
        return Unlike("host", host_difference(host_identity(newest), host_identity(study)))
    if study.before_first_look:
        return Unlike("early")
    if study.summary.state == "failed":
        return Unlike("failed")
    if alarm_of(study.summary.effects):
        return Unlike("alarm")
    mine, theirs = (data_settings(one.study.experiment.data) for one in (newest, study))
    different = tuple(f"{name} {value}" for name, value in theirs.items() if mine.get(name) != value)
    files, others = file_settings(newest), file_settings(study)
    different += tuple(f"{name} {value}" for name, value in others.items() if files.get(name, value) != value)
    if different:
        return Unlike("data", different)
    if not _steps_of(newest).items() & _steps_of(study).items():
        return Unlike("load")
    control = newest.summary.control
    if control in study.summary.arms and (settings := differing_definition((newest, study), control)):
        return Unlike("arm", settings, control)
    return None


def _of_series(studies: Sequence[SavedStudy], newest: SavedStudy, key: Key) -> Measured:
    """The series of the studies that load its step as the newest one does; where its arm is defined differently, or
    compared with a control that is, a study has no value.
    """
    at_step = with_step(studies, newest, key.step)
    arms = [name for name in (key.arm, key.control) if name]
    alike = [
        study
        for study in at_step
        if not any(name in study.summary.arms and differing_definition((newest, study), name) for name in arms)
    ]
    found = measured(alike, key)
    used = {study.name for study in found.studies}
    return replace(found, missing=tuple(study.name for study in at_step if study.name not in used))


def with_step(studies: Sequence[SavedStudy], newest: SavedStudy, step: str) -> list[SavedStudy]:
    """The studies that load this step as the newest one does."""
    return [study for study in studies if _steps_of(study).get(step) == _steps_of(newest).get(step)]


def _steps_of(study: SavedStudy) -> dict[str, str]:
    return {step.id: step_settings(step) for step in study.study.experiment.resolved_steps}


def _keys(newest: SavedStudy, wanted: Selection) -> list[Key]:
    """The series that are wanted, those of arms before the level of the control."""
    summary = newest.summary
    steps = [step.id for step in summary.steps]
    _known("--step", wanted.step, steps)
    _known("--arm", wanted.arm, summary.arms)
    metrics = list(summary.metrics)
    _known("--metric", wanted.metric, metrics)
    metric = wanted.metric or summary.primary
    found = []
    for step in [wanted.step] if wanted.step else steps:
        found += [
            Key("effect", metric, step, arm, control)
            for (of, at, arm, control) in effects_by_contrast(newest)
            if (of, at) == (metric, step) and wanted.arm in (None, arm)
        ]
    for step in [wanted.step] if wanted.step else steps:
        found.append(Key("level", metric, step, wanted.arm or summary.control))
    return found


def _known(option: str, value: str | None, known: Sequence[str]) -> None:
    if value is not None and value not in known:
        raise UserError(f"{option} {value}: the newest study has none of that name", _among(value, known))


def _among(value: str, known: Sequence[str]) -> str:
    if not known:
        return "`mydyno list` lists the studies"
    return with_guess(f"one of: {', '.join(known)}", value, known)


def _short(message: str, path: Path) -> str:
    """The first line of a message, without the study's own path."""
    first = message.splitlines()[0].replace(f"{path}/", "").replace(str(path), "it")
    return first if len(first) <= 160 else f"{first[:159]}…"


@dataclass(frozen=True, slots=True)
class Scatter:
    """Between the sessions of one effect: how many are known, and their sd, of logs; None below FEWEST_SESSIONS."""

    sessions: int
    sd: float | None


def studies_beside(studies: Sequence[SavedStudy]) -> tuple[SavedStudy, ...]:
    """The other studies of the same experiments in the folders of these ones, by the names of their folders.

    Without copies of any of them.
    """
    identities = {study.identity for study in studies}
    own = {study.folder.path.resolve() for study in studies}
    names = {study.summary.experiment for study in studies}
    found: dict[Path, None] = {}
    for folder in dict.fromkeys(path.parent for path in own):
        for path in sorted(folder.iterdir()):
            if path not in own and any(path.name.startswith(f"{name}-") for name in names):
                found[path] = None
    others, _ = without_copies(read_studies(list(found)).studies)
    return tuple(study for study in others if study.identity not in identities)


def session_scatter(studies: Sequence[SavedStudy], beside: Sequence[SavedStudy], contrast: Contrast) -> Scatter:
    """The scatter of one contrast between all comparable sessions on the host of the compared studies."""
    if len({host_identity(study) for study in studies}) > 1:
        return Scatter(0, None)
    newest = max(studies, key=lambda study: study.study.created_unix_ns)
    names = {study.summary.experiment for study in studies}
    every = [*studies, *(one for one in beside if one.summary.experiment in names)]
    usable = [study for study in every if study in studies or not why_left_out(study, newest)]
    usable.sort(key=lambda study: (study.study.created_unix_ns, study.name))
    metric, step, arm, control = contrast
    found = measured(with_step(usable, newest, step), Key("effect", metric, step, arm, control))
    count = len(found.studies)
    if count < FEWEST_SESSIONS:
        return Scatter(count, None)
    errors = np.asarray([one.error or 0.0 for one in found.estimates])
    freedom = np.maximum(1, np.asarray([one.freedom for one in found.estimates]))
    positive = np.where(errors > 0, errors, errors[errors > 0].min(initial=1.0))
    se, _ = moderated(positive, freedom)
    return Scatter(count, session_sd(np.asarray([one.mean or 0.0 for one in found.estimates]), se))
