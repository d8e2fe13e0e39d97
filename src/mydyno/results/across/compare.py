"""A comparison of two or more studies: which of their effects differ, with the noise of both sessions.

What is compared is the effect in one study relative to the effect in another: a ratio of ratios, each to its own
control in its own blocks (stats/contrast.py). The first study is the reference of all others. Contrasts that have a
verdict in every study are one family, held together by Bonferroni; equivalence is per contrast, as in a study. The
rest is exploratory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import expm1, sqrt
from typing import Literal

import numpy as np

from mydyno.errors import UserError
from mydyno.model.stored.comparison import (
    ComparedEffect,
    ControlLevel,
    CopiesNoise,
    EffectDifference,
    IndirectEffect,
    StudyEffect,
)
from mydyno.model.stored.reasons import CopiesDiffer
from mydyno.model.stored.summary import EffectRecord
from mydyno.results.across.common_ground import (
    CommonGround,
    Contrast,
    common_ground,
    differing_definition,
    effects_by_contrast,
    same_control,
)
from mydyno.results.across.history import Scatter, estimate_of, mean_log, mean_of, session_scatter
from mydyno.results.across.saved import MOST_STUDIES, SavedStudy, label, without_copies
from mydyno.results.families import verdict_metrics
from mydyno.results.precision import alarm_of
from mydyno.stats.contrast import Estimate, difference, with_sessions
from mydyno.stats.tost import equivalence

ALPHA = 0.05
MOST_INDIRECT = 12
"""Pairs of arms over a common control; with more, too many are compared to be read."""
NO_SCATTER = Scatter(0, None)
FEWEST_BLOCKS = 3
"""With fewer blocks in a study an interval is no more than a guess at the noise."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a difference is not measurable, or, of "scatter", why it is none."""

    kind: Literal["failed", "no effect", "alarm", "few blocks", "no interval", "scatter"]
    of: str = ""
    """The arm without an effect, or the study with the alarm."""
    effect: EffectRecord | None = None
    """Of what failed."""
    alarm: CopiesDiffer | None = None


Judged = tuple[EffectDifference, Obstacle | None]
"""A difference, its `reason` still empty."""


@dataclass(frozen=True)
class ComparedContrast:
    """One contrast of all studies, without its note and differences, which follow."""

    effect: ComparedEffect
    differences: tuple[Judged, ...]
    definitions: dict[str, tuple[str, ...]]
    """{arm or control: which of its treatments differ between the studies}."""


@dataclass(frozen=True)
class Compared:
    """What a comparison of studies has found."""

    ground: CommonGround
    margin: float
    contrasts: int
    effects: tuple[ComparedContrast, ...]
    indirect: tuple[tuple[IndirectEffect, Obstacle | None], ...]
    control_levels: tuple[ControlLevel, ...]


def compared(studies: Sequence[SavedStudy], beside: Sequence[SavedStudy] = ()) -> Compared:
    """The comparison of two or more studies. Raises UserError for one that is there twice, or more than 26.

    `beside`: other studies, which show how much sessions differ (history.py).
    """
    _check(studies)
    ground = common_ground(studies)
    of_each = [effects_by_contrast(study) for study in studies]
    judged = [one for one in ground.contrasts if all(found[one].verdict for found in of_each)]
    contrasts = sum(
        _measured(first, other) for one in judged for first, other in ((of_each[0][one], of[one]) for of in of_each[1:])
    )
    judge = _Judge(studies, max(1, contrasts), beside)
    effects = [_compared(judge, of_each, one, one in judged) for one in ground.contrasts]
    return Compared(
        ground=ground,
        margin=judge.margin(studies[0].summary.primary),
        contrasts=contrasts,
        effects=tuple(sorted(effects, key=lambda one: not one.effect.primary)),
        indirect=_indirect(studies, ground, judge),
        control_levels=_control_levels(studies, ground),
    )


def noise_of(study: SavedStudy) -> tuple[CopiesNoise, ...]:
    """How far the copies of the control were apart, for each metric with verdicts at each step."""
    if study.before_first_look:
        return ()
    metrics = [metric for metric in verdict_metrics(study.study.experiment) if metric in study.summary.metrics]
    found = [_noise(study, metric, step.id) for metric in metrics for step in study.summary.steps]
    return tuple(one for one in found if one is not None)


@dataclass(frozen=True)
class _Judge:
    """What holds for all differences of a comparison."""

    studies: Sequence[SavedStudy]
    contrasts: int
    beside: Sequence[SavedStudy] = ()

    def margin(self, metric: str) -> float:
        """The smallest margin that a study declares for a metric."""
        return min(study.study.experiment.verdict.margin_of(metric) for study in self.studies)

    def difference(
        self,
        places: tuple[int, int],
        records: tuple[EffectRecord, EffectRecord],
        judged: bool,
        scatter: Scatter = NO_SCATTER,
    ) -> Judged:
        """The second effect relative to the first, with a verdict if `judged`."""
        pair = [self.studies[place] for place in places]
        first, second = (estimate_of(record, study.summary.alpha) for record, study in zip(records, pair, strict=True))
        alone = difference(first, second)
        found = alone if scatter.sd is None else with_sessions(alone, scatter.sd, scatter.sessions)
        count = self.contrasts if judged else 1
        interval = found.interval(ALPHA / count, 1.0 - ALPHA)
        p = found.p()
        verdict, obstacle = None, _unmeasured(records)
        if judged:
            verdict, obstacle = self._verdict(found, pair, records)
            if verdict == "inconclusive" and self._verdict(alone, pair, records)[0] in ("higher", "lower"):
                obstacle = Obstacle("scatter")
        made = EffectDifference(
            first=label(places[0]),
            second=label(places[1]),
            ratio=found.ratio,
            ci_low=interval.low,
            ci_high=interval.high,
            freedom=found.freedom,
            p=None if p is None else min(1.0, count * p),
            verdict=verdict,
            sessions=scatter.sessions,
            session_sd=None if scatter.sd is None else expm1(scatter.sd),
        )
        return made, obstacle

    def _verdict(
        self, found: Estimate, pair: Sequence[SavedStudy], records: tuple[EffectRecord, EffectRecord]
    ) -> tuple[Literal["higher", "lower", "equivalent", "inconclusive", "not_measurable"], Obstacle | None]:
        if obstacle := _unmeasured(records):
            return "not_measurable", obstacle
        for study in pair:
            if alarm := alarm_of(study.summary.effects):
                return "not_measurable", Obstacle("alarm", study.name, alarm=alarm)
        if found.n < FEWEST_BLOCKS:
            return "not_measurable", Obstacle("few blocks")
        if found.error is None or found.mean is None:
            return "not_measurable", Obstacle("no interval")
        interval = found.interval(ALPHA / self.contrasts, 1.0 - ALPHA)
        if interval.excludes_no_change() and abs(found.mean) > _copies_differ(pair, records[0]):
            return ("higher" if found.mean > 0 else "lower"), None
        if equivalence(found, self.margin(records[0].metric), ALPHA).equivalent:
            return "equivalent", None
        return "inconclusive", None


def _check(studies: Sequence[SavedStudy]) -> None:
    if len(studies) > MOST_STUDIES:
        raise UserError(f"{len(studies)} studies: at most {MOST_STUDIES} can be compared")
    _, copies = without_copies(studies)
    for copy, of in copies:
        path, other = copy.folder.path, of.folder.path
        twice = path.resolve() == other.resolve()
        what = f"{of.name} is named twice" if twice else f"{path} is a copy of {other}: they are one study"
        raise UserError(what, "compare it with another study")


def _measured(first: EffectRecord, second: EffectRecord) -> bool:
    return first.ratio is not None and second.ratio is not None


def _unmeasured(records: Sequence[EffectRecord]) -> Obstacle | None:
    """Why a ratio is missing; None if none is."""
    for record in records:
        if record.ratio is None:
            return Obstacle("failed", effect=record) if record.details.failure else Obstacle("no effect", record.arm)
    return None


def _copies_differ(pair: Sequence[SavedStudy], record: EffectRecord) -> float:
    """How far the copies of both controls were apart in the mean, both sessions together (root of squares)."""
    means = []
    for study in pair:
        copies = study.copies(record.metric, record.step)
        means.append(float(np.mean([np.log(b / a) for a, b in copies.values()])) if copies else 0.0)
    return sqrt(sum(mean**2 for mean in means))


def _noise(study: SavedStudy, metric: str, step: str) -> CopiesNoise | None:
    logs = {block: float(np.log(b / a)) for block, (a, b) in study.copies(metric, step).items()}
    if not logs:
        return None
    found = mean_of(logs)
    interval = found.interval(ALPHA, 1.0 - ALPHA)
    return CopiesNoise(
        metric=metric,
        step=step,
        n=len(logs),
        ratio=found.ratio or 1.0,
        ci_low=interval.low,
        ci_high=interval.high,
        typical=expm1(float(np.median(np.abs(list(logs.values()))))),
    )


def _compared(
    judge: _Judge, of_each: Sequence[dict[Contrast, EffectRecord]], contrast: Contrast, judged: bool
) -> ComparedContrast:
    metric, step, arm, control = contrast
    records = [found[contrast] for found in of_each]
    scatter = session_scatter(judge.studies, judge.beside, contrast) if judged else NO_SCATTER
    effect = ComparedEffect(
        metric=metric,
        step=step,
        arm=arm,
        control=control,
        primary=judged,
        effects=tuple(
            StudyEffect(
                label=label(place),
                n=record.n,
                ratio=record.ratio,
                ci_low=record.ci_low,
                ci_high=record.ci_high,
                verdict=record.verdict,
                failure=record.details.failure,
            )
            for place, record in enumerate(records)
        ),
        differences=(),
    )
    return ComparedContrast(
        effect,
        tuple(
            judge.difference((0, place), (records[0], records[place]), judged, scatter)
            for place in range(1, len(records))
        ),
        {name: differing_definition(judge.studies, name) for name in dict.fromkeys((arm, control))},
    )


def _indirect(
    studies: Sequence[SavedStudy], ground: CommonGround, judge: _Judge
) -> tuple[tuple[IndirectEffect, Obstacle | None], ...]:
    """Arms that one study alone has against those that another one alone has, where they share a control."""
    found = []
    first = studies[0]
    for place, other in enumerate(studies[1:], 1):
        control = first.summary.control
        if other.summary.control != control or not same_control(first, other, control):
            continue
        metric = first.summary.primary
        if other.summary.primary != metric or metric in ground.unlike_metrics:
            continue
        of_each = [effects_by_contrast(study) for study in (first, other)]
        ours, others = ({(arm, base) for _, _, arm, base in of} for of in of_each)
        for step in ground.step_ids:
            mine, theirs = (
                [record for (of, at, arm, base), record in effects.items()
                 if (of, at, base) == (metric, step, control) and (arm, base) not in ours & others]
                for effects in of_each
            )  # fmt: skip
            for a, b in product(mine, theirs):
                made, obstacle = judge.difference((0, place), (a, b), False)
                one = IndirectEffect(
                    metric=metric, step=step, first_arm=a.arm, second_arm=b.arm, control=control, difference=made
                )
                found.append((one, obstacle))
    return tuple(found) if len(found) <= MOST_INDIRECT else ()


def _control_levels(studies: Sequence[SavedStudy], ground: CommonGround) -> tuple[ControlLevel, ...]:
    """How far the level of the control is from that in the first study, on the primary metric at each step."""
    found = []
    metric, control = studies[0].summary.primary, studies[0].summary.control
    for place, other in enumerate(studies[1:], 1):
        if control not in {arm.name for arm in other.study.experiment.arms} or metric in ground.unlike_metrics:
            continue
        for step in ground.step_ids:
            levels = [mean_log(study.levels(metric, step, control)) for study in (studies[0], other)]
            shift = difference(*levels)
            if shift.ratio is None:
                continue
            interval = shift.interval(ALPHA, 1.0 - ALPHA)
            found.append(
                ControlLevel(
                    metric=metric,
                    step=step,
                    first=label(0),
                    second=label(place),
                    ratio=shift.ratio,
                    ci_low=interval.low,
                    ci_high=interval.high,
                    same_control=same_control(studies[0], other, control),
                )
            )
    return tuple(found)
