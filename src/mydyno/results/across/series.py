"""The values of one arm, step and metric in each study of a history, with their errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from typing import Literal

from mydyno.language import colon, tr, tr_plural
from mydyno.model.stored.comparison import Setting
from mydyno.model.stored.history import HistoryPoint, HistorySeries, LevelChange, SeriesLevel
from mydyno.results.across.common_ground import effects_by_contrast
from mydyno.results.across.estimates import estimate_of, mean_log
from mydyno.results.across.saved import SavedStudy
from mydyno.results.across.setting_words import group_words, setting_words, value_words
from mydyno.results.across.settings import PACKAGES, study_settings
from mydyno.results.across.words import BUILD, NOT_CAUSES
from mydyno.stats.contrast import Estimate
from mydyno.stats.level_changes import Levels, level_changes
from mydyno.stats.paired import t_quantile

MOST_OF_GROUP = 3
"""Settings of one kind that are named at a point; of more the number is given."""
MOST_CHANGED = 6
"""Settings named at a point; of more the number is given."""


@dataclass(frozen=True, slots=True)
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


def analysed(of: Measured, alpha: float) -> HistorySeries:
    """The series with its levels and changes, and an empty sentence."""
    values = [one.mean or 0.0 for one in of.estimates]
    errors = [one.error or 0.0 for one in of.estimates]
    found = level_changes(values, errors, [one.freedom for one in of.estimates], alpha)
    names = [study.name for study in of.studies]
    return HistorySeries(
        kind=of.key.kind,
        metric=of.key.metric,
        step=of.key.step,
        arm=of.key.arm,
        control=of.key.control,
        points=tuple(_points(of)),
        missing=of.missing,
        levels=_levels(found, names),
        changes=tuple(
            LevelChange(
                study=names[change.at],
                before=names[change.at - 1],
                ratio=exp(change.size),
                ci_low=exp(change.low),
                ci_high=exp(change.high),
                changed=changed_between(of.studies[change.at - 1], of.studies[change.at]),
            )
            for change in found.changes
        ),
        p=found.p,
        session_sd=found.session_sd,
        detectable=None if found.detectable is None else exp(found.detectable) - 1.0,
        sentence="",
    )


def changed_between(before: SavedStudy, after: SavedStudy) -> tuple[str, ...]:
    """What was recorded to differ: "version: MariaDB 10.11.18 → MariaDB 10.11.19"; the server first."""
    found = []
    for group in sorted(study_settings((before, after)), key=lambda group: group.name != "server"):
        differing = [setting for setting in group.differing if setting.name not in NOT_CAUSES]
        if group.name == "server":
            differing = _of_server(differing)
        if len(differing) > MOST_OF_GROUP or (group.name == PACKAGES and differing):
            found.append(_counted(group.name, len(differing)))
            continue
        for setting in differing:
            old, new = (
                tr("not recorded") if value is None else value_words(group.name, setting.name, value)
                for value in setting.values
            )
            found.append(f"{setting_words(group.name, setting.name)}{colon()}{old} → {new}")
    if len(found) > MOST_CHANGED:
        return (*found[: MOST_CHANGED - 1], tr("{count} more settings", count=len(found) - MOST_CHANGED + 1))
    return tuple(found)


def _counted(group: str, count: int) -> str:
    """How many settings of a group: "3 packages"."""
    if group == PACKAGES:
        return tr_plural("{count} package", "{count} packages", count)
    return tr("{count} {group}", count=count, group=group_words(group))


def _of_server(differing: Sequence[Setting]) -> list[Setting]:
    """The version stands for the build and the name where it differs."""
    implied = BUILD if any(setting.name == "version" for setting in differing) else ()
    return [one for one in differing if one.name == "version" or one.name not in implied]


def _estimate(study: SavedStudy, key: Key) -> Estimate:
    if key.kind == "level":
        return mean_log(study.levels(key.metric, key.step, key.arm))
    record = effects_by_contrast(study).get((key.metric, key.step, key.arm, key.control))
    if record is None:
        return Estimate(0, None, None, 0, None, False)
    return estimate_of(record, study.summary.alpha)


def _points(of: Measured) -> Iterator[HistoryPoint]:
    before = None
    for study, one in zip(of.studies, of.estimates, strict=True):
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
            changed=changed_between(before, study) if before else (),
        )
        before = study


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
