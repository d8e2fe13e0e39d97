"""A comparison of arms of one study: each against the first that was named, from the same blocks.

A contrast that the experiment declares has the interval and the verdict of the study's report. One that it does not
declare was chosen after the results were there: it gets an interval, held together over all such contrasts of this
comparison, and no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mydyno.errors import UserError
from mydyno.language import comma, joined, listing, marked, tr
from mydyno.model.definition.load_level import load_level
from mydyno.model.definition.problems import nearest
from mydyno.model.metrics import phrase_of
from mydyno.model.stored.comparison import ArmComparison, ArmEffect
from mydyno.model.stored.summary import EffectRecord
from mydyno.results.across.compare import compared_study
from mydyno.results.across.saved import SavedStudy
from mydyno.results.across.settings import arm_settings
from mydyno.results.across.words import ratio_words
from mydyno.results.families import families, verdict_metrics
from mydyno.results.summarise import effect_record
from mydyno.verdicts import Family, decide_study

CONCLUSIONS = (
    marked("The arms ran in the same blocks, so the session's speed cancels."),
    marked(
        "A contrast that the experiment does not declare was chosen after the results were known: it has an interval "
        "and no verdict. To get one, declare it with [[verdict.compare]] and run the experiment."
    ),
)


def compare_arms(study: SavedStudy, arms: Sequence[str]) -> ArmComparison:
    """The second and further arms against the first. Raises UserError for unknown arms, fewer than two, or no effects
    yet.
    """
    known = tuple(arm.name for arm in study.study.experiment.arms)
    for arm in arms:
        if arm not in known:
            guess = nearest(arm, known)
            raise UserError(
                f"--arms {arm}: {study.name} has no such arm; it has {', '.join(known)}",
                f"did you mean {guess}?" if guess else "",
            )
    if len(dict.fromkeys(arms)) < 2 or len(set(arms)) < len(arms):
        raise UserError("--arms needs two different arms or more", "--arms glibc,jemalloc")
    if study.before_first_look:
        raise UserError(f"{study.name} has not reached its first look, so it has no effects yet")
    metrics = [metric for metric in verdict_metrics(study.study.experiment) if metric in study.summary.metrics]
    pairs = [(arm, arms[0]) for arm in arms[1:]]
    declared = [_declared(study, metric, pair) for metric in metrics for pair in pairs]
    missing = [pair for pair in pairs if not _declared(study, metrics[0], pair)]
    undeclared = _undeclared(study, metrics, missing)
    found = tuple(one for of in (*declared, undeclared) for one in of)
    order = {step.id: place for place, step in enumerate(study.summary.steps)}
    found = tuple(sorted(found, key=lambda one: (metrics.index(one.metric), order[one.step], arms.index(one.arm))))
    made = ArmComparison(
        study=compared_study(study, 0),
        arms=tuple(arms),
        answer=(),
        conclusions=tuple(tr(one) for one in CONCLUSIONS if undeclared or one == CONCLUSIONS[0]),
        settings=arm_settings(study, arms),
        steps=study.summary.steps,
        effects=found,
    )
    return made.model_copy(update={"answer": _answer(made, metrics[0])})


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
        for family in families(study.study.experiment, runs, metrics, {})
        if family.control == study.summary.control
    }
    several = [_family(own[metric], arm, against) for metric in metrics if metric in own for arm, against in pairs]
    effects = decide_study(several)
    return tuple(
        _effect(effect_record(replace(one, verdict=None)), (one.arm, one.control), False)
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
        steps={
            step: tuple(one for one in seen if one.arm in used and one.copy == 1) for step, seen in of.steps.items()
        },
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


def _answer(made: ArmComparison, primary: str) -> tuple[str, ...]:
    """A sentence for each arm on the primary metric, at most three."""
    found = []
    for arm in made.arms[1:]:
        clauses = []
        for one in made.effects:
            if one.metric != primary or one.arm != arm:
                continue
            step = next(step for step in made.steps if step.id == one.step)
            several = len({step.workload for step in made.steps}) > 1
            level = load_level(step.connections, step.rate)
            where = tr("{level} ({workload})", level=level, workload=step.workload) if several else level
            clauses.append(tr("{size} at {step}", size=_words(one), step=where) if len(made.steps) > 1 else _words(one))
        if clauses:
            found.append(
                tr(
                    "{arm} against {control}, {noun}: {clauses}.",
                    arm=arm, control=made.arms[0], noun=phrase_of(primary).short_subject, clauses=joined(clauses),
                )
            )  # fmt: skip
    if len(found) > 3:
        return (*found[:2], tr("{arms}: see the table.", arms=listing(made.arms[3:])))
    return tuple(found)


def _words(one: ArmEffect) -> str:
    if one.failure:
        return one.failure
    if one.ratio is None:
        return tr("no estimate")
    size = ratio_words(one.ratio, one.ci_low, one.ci_high)
    return comma((size, tr(one.verdict.replace("_", " ")))) if one.verdict else size
