"""The values of one arm, step and metric in each study of a history, with their errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from typing import Literal

from mydyno.model.stored.comparison import HistoryPoint, HistorySeries, LevelChange, SeriesLevel
from mydyno.results.across.common_ground import effects_by_contrast
from mydyno.results.across.estimates import estimate_of, mean_log
from mydyno.results.across.saved import SavedStudy
from mydyno.stats.contrast import Estimate
from mydyno.stats.level_changes import Levels, level_changes
from mydyno.stats.paired import t_quantile


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


@dataclass(frozen=True)
class Analysed:
    """A series with its levels and changes, without words; `changed_at` are the places of the changes' studies."""

    of: Measured
    series: HistorySeries
    changed_at: tuple[int, ...]


def analysed(of: Measured, alpha: float) -> Analysed:
    """The levels and changes of a series."""
    values = [one.mean or 0.0 for one in of.estimates]
    errors = [one.error or 0.0 for one in of.estimates]
    found = level_changes(values, errors, [one.freedom for one in of.estimates], alpha)
    names = [study.name for study in of.studies]
    series = HistorySeries(
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
            )
            for change in found.changes
        ),
        p=found.p,
        session_sd=found.session_sd,
        detectable=None if found.detectable is None else exp(found.detectable) - 1.0,
        sentence="",
    )
    return Analysed(of, series, tuple(change.at for change in found.changes))


def _estimate(study: SavedStudy, key: Key) -> Estimate:
    if key.kind == "level":
        return mean_log(study.levels(key.metric, key.step, key.arm))
    record = effects_by_contrast(study).get((key.metric, key.step, key.arm, key.control))
    if record is None:
        return Estimate(0, None, None, 0, None, False)
    return estimate_of(record, study.summary.alpha)


def _points(of: Measured) -> Iterator[HistoryPoint]:
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
