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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log, sqrt
from pathlib import Path
from typing import Literal

import numpy as np

from mydyno.across.history_document import answer, series_sentence
from mydyno.across.saved import SavedStudy, host_difference, host_identity, without_copies
from mydyno.across.settings import changed_between, data_settings, differing_definition, file_settings, load_settings
from mydyno.errors import MydynoError, UserError
from mydyno.model.definition.problems import with_guess
from mydyno.model.frozen_record import Contrast
from mydyno.model.stored.comparison import History, HistoryPoint, HistorySeries, LeftOut, LevelChange, SeriesLevel
from mydyno.model.stored.summary import EffectRecord, StepLevel, Summary
from mydyno.results.precision import alarm_of
from mydyno.stats.contrast import Estimate
from mydyno.stats.level_changes import FEWEST_SESSIONS, Levels, level_changes, moderated, session_sd
from mydyno.stats.paired import has_no_spread, t_quantile
from mydyno.store.study_folder import studies_below

EXPLORATORY_ALPHA = 0.05
"""The error rate of the unadjusted intervals of metrics without verdicts."""


def estimate_of(effect: EffectRecord, alpha: float) -> Estimate:
    """The log ratio with its error, from the unadjusted interval; `alpha` is the summary's error rate.

    A summary without that interval has the error of its blocks' log ratios.
    """
    if effect.ratio is None or effect.ratio <= 0.0:
        return Estimate(0, None, None, 0, None, False)
    details, mean = effect.details, log(effect.ratio)
    low, high = details.single_low, details.single_high
    freedom = details.single_freedom or details.freedom
    if low and high and freedom >= 1:
        level = alpha if effect.verdict else EXPLORATORY_ALPHA
        error = log(high / low) / 2.0 / t_quantile(1.0 - level / 2.0, freedom)
        return Estimate(effect.n, mean, error, freedom, None, details.method == "pooled")
    own = mean_of(details.log_ratios or {})
    return Estimate(effect.n, mean, own.error, own.freedom, own.block_sd, False)


def mean_of(values: Mapping[int, float]) -> Estimate:
    """The mean of {block: value} with its error over blocks; without an error below two blocks."""
    d = np.array(list(values.values()))
    if d.size < 2:
        return Estimate(d.size, float(d[0]) if d.size else None, None, 0, None, False)
    sd = 0.0 if has_no_spread(d) else float(d.std(ddof=1))
    return Estimate(d.size, float(d.mean()), sd / sqrt(d.size), d.size - 1, sd, False)


def mean_log(values: Mapping[int, tuple[float, ...]]) -> Estimate:
    """The mean over blocks of the logs of {block: values of its copies}."""
    return mean_of({block: float(np.mean(np.log(of))) for block, of in values.items()})


@dataclass(frozen=True)
class Key:
    """What a series is of."""

    kind: Literal["effect", "level"]
    metric: str
    step: str
    arm: str
    control: str = ""


@dataclass(frozen=True)
class Measured:
    """A series before its analysis: the studies that have a value with an error, oldest first."""

    key: Key
    studies: tuple[SavedStudy, ...]
    estimates: tuple[Estimate, ...]
    missing: tuple[str, ...] = ()


def measured(studies: Sequence[SavedStudy], key: Key) -> Measured:
    """The studies that have this value with an error."""
    found = [(study, one) for study in studies if (one := _estimate(study, key)).error is not None]
    names = {study.name for study, _ in found}
    missing = tuple(study.name for study in studies if study.name not in names)
    return Measured(key, tuple(study for study, _ in found), tuple(one for _, one in found), missing)


def analysed(of: Measured, alpha: float, steps: Sequence[StepLevel]) -> HistorySeries:
    """The levels and changes of a series, and what was recorded to differ between its studies."""
    values = [one.mean or 0.0 for one in of.estimates]
    errors = [one.error or 0.0 for one in of.estimates]
    found = level_changes(values, errors, [one.freedom for one in of.estimates], alpha)
    names = [study.name for study in of.studies]
    changed = [(), *(changed_between(before, after) for before, after in pairwise(of.studies))]
    series = HistorySeries.like(
        of.key,
        points=tuple(_points(of, changed)),
        missing=of.missing,
        levels=_levels(found, names),
        changes=tuple(
            LevelChange(
                study=names[change.at],
                before=names[change.at - 1],
                ratio=exp(change.size),
                ci_low=exp(change.low),
                ci_high=exp(change.high),
                changed=changed[change.at],
            )
            for change in found.changes
        ),
        p=found.p,
        session_sd=found.session_sd,
        detectable=None if found.detectable is None else exp(found.detectable) - 1.0,
        sentence="",
    )
    return series.model_copy(update={"sentence": series_sentence(steps, series)})


def _estimate(study: SavedStudy, key: Key) -> Estimate:
    if key.kind == "level":
        return mean_log(study.levels(key.metric, key.step, key.arm))
    record = study.effects.get((key.metric, key.step, key.arm, key.control))
    if record is None or record.verdict == "not_measurable":
        return Estimate(0, None, None, 0, None, False)
    return estimate_of(record, study.summary.alpha)


def _points(of: Measured, changed: Sequence[tuple[str, ...]]) -> Iterator[HistoryPoint]:
    for study, one, differs in zip(of.studies, of.estimates, changed, strict=True):
        interval = one.interval(0.05, 0.95)
        assert one.ratio is not None and interval.low is not None and interval.high is not None
        yield HistoryPoint(
            study=study.name,
            created_unix_ns=study.study.created_unix_ns,
            server=study.server,
            mydyno_version=study.study.mydyno_version,
            n=one.n,
            value=one.ratio,
            ci_low=interval.low,
            ci_high=interval.high,
            changed=differs,
        )


def _levels(found: Levels, names: Sequence[str]) -> tuple[SeriesLevel, ...]:
    levels = []
    for one in found.segments:
        freedom = max(1, len(names) - len(found.segments))
        half = t_quantile(0.975, freedom) * one.error
        levels.append(
            SeriesLevel(
                first=names[one.start],
                last=names[one.end - 1],
                studies=one.end - one.start,
                value=exp(one.level),
                ci_low=exp(one.level - half),
                ci_high=exp(one.level + half),
            )
        )
    return tuple(levels)


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


def history_of(found: FoundStudies, experiment: str, selection: Selection | None = None) -> History:
    """The history of an experiment among these studies.

    Raises UserError if none of them is usable, or for an arm, step, metric or host that is not among them.
    """
    wanted = selection or Selection()
    studies, copies = without_copies(found.studies)
    of_experiment = _studies_of(replace(found, studies=tuple(studies)), experiment)
    newest = _newest(of_experiment, wanted.host)
    reasons = [(copy.name, f"it is the same study as {of.name}") for copy, of in copies
               if of.summary.experiment == experiment]  # fmt: skip
    usable = []
    for study in of_experiment:
        if reason := why_left_out(study, newest):
            reasons.append((study.name, reason))
        else:
            usable.append(study)
    several = [one for key in _keys(newest, wanted) if (one := _of_series(usable, newest, key)).studies]
    steps = tuple(StepLevel.like(step) for step in newest.study.experiment.resolved_steps)
    made = History(
        experiment=experiment,
        question=newest.summary.question,
        host=newest.host,
        answer=(),
        studies=tuple(study.name for study in usable),
        steps=steps,
        series=tuple(analysed(one, ALPHA / len(several), steps) for one in several),
        left_out=(
            *_unreadable_of(found, experiment), *(LeftOut(study=name, reason=reason) for name, reason in reasons),
        ),
        alpha=ALPHA,
    )  # fmt: skip
    return made.model_copy(update={"answer": answer(made)})


def newest_of(found: FoundStudies, experiment: str, host: str | None = None) -> Summary:
    """The study that the others are compared with, whose arms, steps and metrics a Selection may name.

    Raises UserError as history_of() does.
    """
    return _newest(_studies_of(found, experiment), host).summary


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


def why_left_out(study: SavedStudy, newest: SavedStudy) -> str:
    """Why a study is not comparable with the newest one; empty if it is."""
    if host_identity(study) != host_identity(newest):
        differs = ", ".join(host_difference(host_identity(newest), host_identity(study)))
        return f"another host ({differs})" if differs else "another host"
    if study.before_first_look:
        return "it has not reached its first interim analysis, so it has no effects"
    if study.summary.state == "failed":
        return "it failed: it has no valid run"
    if alarm_of(study.summary.effects):
        return "two equal servers differ"
    mine, theirs = (data_settings(one.study.experiment.data) for one in (newest, study))
    different = [f"{name} {value}" for name, value in theirs.items() if mine.get(name) != value]
    files, others = file_settings(newest), file_settings(study)
    different += [f"{name} {value}" for name, value in others.items() if files.get(name, value) != value]
    if different:
        return f"other data ({', '.join(different)})"
    if not load_settings(newest).items() & load_settings(study).items():
        return "other load: it has no load level in common with the newest study"
    control = newest.summary.control
    if control in study.summary.arms and (settings := differing_definition((newest, study), control)):
        return f"arm {control} is defined differently ({', '.join(settings)})"
    return ""


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
    return [study for study in studies if load_settings(study).get(step) == load_settings(newest).get(step)]


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
            for (of, at, arm, control) in newest.effects
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
