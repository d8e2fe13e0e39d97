"""A comparison of arms of one study: each against the first that was named, from the same blocks.

A contrast that the experiment declares has the interval and the verdict of the study's report. One that it does not
declare was chosen after the results were there: it gets an interval, held together over all such contrasts of this
comparison, and no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mydyno.errors import UserError
from mydyno.model.definition.problems import with_guess
from mydyno.model.stored.comparison import ArmEffect
from mydyno.model.stored.summary import EffectRecord
from mydyno.results.across.saved import SavedStudy
from mydyno.results.families import families, verdict_metrics
from mydyno.verdicts import Family, decide_study


def arm_effects(study: SavedStudy, arms: Sequence[str]) -> tuple[ArmEffect, ...]:
    """The second and further arms against the first, of the primary metric first.

    Raises UserError for unknown arms, fewer than two, or no effects yet.
    """
    known = tuple(arm.name for arm in study.study.experiment.arms)
    for arm in arms:
        if arm not in known:
            raise UserError(
                f"--arms {arm}: {study.name} has no such arm; it has {', '.join(known)}",
                with_guess("", arm, known),
            )
    if len(dict.fromkeys(arms)) < 2 or len(set(arms)) < len(arms):
        raise UserError("--arms needs two different arms or more", "--arms glibc,jemalloc")
    if study.before_first_look:
        raise UserError(f"{study.name} has not reached its first interim analysis, so it has no effects yet")
    metrics = arm_metrics(study)
    pairs = [(arm, arms[0]) for arm in arms[1:]]
    declared = [_declared(study, metric, pair) for metric in metrics for pair in pairs]
    missing = [pair for pair in pairs if not _declared(study, metrics[0], pair)]
    found = [one for of in (*declared, _undeclared(study, metrics, missing)) for one in of]
    order = {step.id: place for place, step in enumerate(study.summary.steps)}
    return tuple(sorted(found, key=lambda one: (metrics.index(one.metric), order[one.step], arms.index(one.arm))))


def arm_metrics(study: SavedStudy) -> list[str]:
    """The metrics on which arms are compared."""
    return [metric for metric in verdict_metrics(study.study.experiment) if metric in study.summary.metrics]


def _declared(study: SavedStudy, metric: str, pair: tuple[str, str]) -> list[ArmEffect]:
    """The effects of a declared contrast; turned round where the control was not named first."""
    found = []
    for one in study.summary.effects:
        if one.metric != metric or one.verdict is None:
            continue
        if (one.arm, one.control) == pair:
            found.append(_effect(one, pair, True))
        elif (one.control, one.arm) == pair:
            found.append(_effect(_turned(one), pair, True))
    return found


def _undeclared(study: SavedStudy, metrics: Sequence[str], pairs: Sequence[tuple[str, str]]) -> tuple[ArmEffect, ...]:
    if not pairs:
        return ()
    runs = [run for run in study.summary.runs if run.block in study.examined_blocks]
    own = {
        family.metric.name: family
        for family in families(study.study.experiment, runs, metrics)
        if family.control == study.summary.control
    }
    several = [_family(own[metric], arm, against) for metric in metrics if metric in own for arm, against in pairs]
    effects = decide_study(several)
    return tuple(
        _effect(one.model_copy(update={"verdict": None}), (one.arm, one.control), False)
        for one in effects
        if (one.arm, one.control) in pairs
    )


def _family(of: Family, arm: str, against: str) -> Family:
    """The contrast of two arms, with the study's own copies as its A/A comparison."""
    used = (arm, against)
    return replace(
        of,
        control=against,
        arms=used,
        steps={step: tuple(one for one in seen if one.arm in used) for step, seen in of.steps.items()},
        primary=True,
        a_a=replace(of, arms=(of.control,), steps={
            step: tuple(one for one in seen if one.arm == of.control) for step, seen in of.steps.items()
        }),
    )  # fmt: skip


def _effect(one: EffectRecord, pair: tuple[str, str], declared: bool) -> ArmEffect:
    return ArmEffect(
        metric=one.metric,
        step=one.step,
        arm=pair[0],
        against=pair[1],
        n=one.n,
        ratio=one.ratio,
        ci_low=one.ci_low,
        ci_high=one.ci_high,
        declared=declared,
        verdict=one.verdict,
        failure=one.details.failure,
    )


def _turned(one: EffectRecord) -> EffectRecord:
    """The effect of the control against the arm."""
    verdict = {"higher": "lower", "lower": "higher"}.get(one.verdict or "", one.verdict)
    return one.model_copy(
        update={
            "ratio": None if one.ratio is None else 1.0 / one.ratio,
            "ci_low": None if one.ci_high is None else 1.0 / one.ci_high,
            "ci_high": None if one.ci_low is None else 1.0 / one.ci_low,
            "verdict": verdict,
        }
    )
