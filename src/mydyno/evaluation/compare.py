"""The comparison of studies, or of arms of one study, with its sentences, as `mydyno compare` prints it.

Arms of one study are each compared with the first that was named, from the same blocks. A contrast that the experiment
declares has the interval and the verdict of the study's report. One that it does not declare was chosen after the
results were there: it gets an interval, held together over all such contrasts of this comparison, and no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mydyno.errors import UserError
from mydyno.evaluation.answer import answer_study
from mydyno.language import agreed, listing
from mydyno.model.definition.problems import with_guess
from mydyno.model.metrics import phrase_of
from mydyno.model.stored.comparison import (
    ArmComparison,
    ArmEffect,
    ComparedEffect,
    ComparedStudy,
    Comparison,
    EffectDifference,
    NotCompared,
)
from mydyno.model.stored.summary import EffectRecord, StepLevel, at_step
from mydyno.results.across.common_ground import Refused, arm_settings
from mydyno.results.across.compare import ALPHA, FEWEST_BLOCKS, ComparedContrast, Obstacle, compared, noise_of
from mydyno.results.across.saved import SavedStudy, label
from mydyno.results.families import families, verdict_metrics
from mydyno.results.precision import alarm_of
from mydyno.verdicts import Family, decide_study
from mydyno.wording.comparison import (
    answer,
    conclusions,
    definition_note,
    scatter_reason,
    study_notes,
    worded_settings,
)
from mydyno.wording.numbers import change_words
from mydyno.wording.verdicts import alarm_clause, failure_clause, recorded_failure


def arm_effects(study: SavedStudy, arms: Sequence[str]) -> tuple[ArmEffect, ...]:
    """The second and further arms against the first, of the primary metric first.

    Raises UserError for unknown arms, fewer than two, or no effects yet.
    """
    known = tuple(arm.name for arm in study.study.experiment.arms)
    for arm in arms:
        if arm not in known:
            raise UserError(
                f"--arms {arm}: {study.name} has no such arm; it has {', '.join(known)}", with_guess("", arm, known)
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
            found.append(_arm_effect(one, pair, True))
        elif (one.control, one.arm) == pair:
            found.append(_arm_effect(_turned(one), pair, True))
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
        _arm_effect(one.model_copy(update={"verdict": None}), (one.arm, one.control), False)
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


def _arm_effect(one: EffectRecord, pair: tuple[str, str], declared: bool) -> ArmEffect:
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


def compare_studies(studies: Sequence[SavedStudy], beside: Sequence[SavedStudy] = ()) -> Comparison:
    """The comparison of two or more studies. Raises UserError for one that is there twice, or more than 26.

    `beside`: other studies, which show how much sessions differ.
    """
    found = compared(studies, beside)
    made = Comparison(
        studies=tuple(compared_study(study, place) for place, study in enumerate(studies)),
        comparable=bool(found.effects or found.indirect),
        answer=(),
        conclusions=(),
        settings=worded_settings(studies),
        steps=tuple(StepLevel.of(step) for step in found.ground.steps),
        margin=found.margin,
        contrasts=found.contrasts,
        alpha=ALPHA,
        effects=tuple(map(_effect, found.effects)),
        indirect=tuple(
            one.model_copy(update={"difference": _with_reason(one.difference, obstacle)})
            for one, obstacle in found.indirect
        ),
        control_levels=found.control_levels,
        not_compared=tuple(map(_refusal, found.ground.refused)),
    )
    return made.model_copy(update={"answer": answer(made), "conclusions": conclusions(made)})


def compared_study(study: SavedStudy, place: int) -> ComparedStudy:
    """A study with its question, answer and noise."""
    summary, experiment = study.summary, study.study.experiment
    found = answer_study(summary, study.study, tuple(study.folder.runs()))
    return ComparedStudy(
        label=label(place),
        study=study.name,
        experiment=summary.experiment,
        question=summary.question or experiment.question,
        answer=found.answer,
        scope=found.scope,
        created_unix_ns=study.study.created_unix_ns,
        server=study.server,
        host=study.host,
        state=summary.state,
        blocks=0 if study.before_first_look else len(study.examined_blocks),
        control=summary.control,
        noise=noise_of(study),
        alarm=alarm_clause(alarm_of(summary.effects)),
        notes=tuple(study_notes(study)),
    )


def _effect(one: ComparedContrast) -> ComparedEffect:
    differences = tuple(_with_reason(difference, obstacle) for difference, obstacle in one.differences)
    return one.effect.model_copy(update={"differences": differences, "note": definition_note(one.definitions)})


def _with_reason(one: EffectDifference, obstacle: Obstacle | None) -> EffectDifference:
    return one if obstacle is None else one.model_copy(update={"reason": _reason(one, obstacle)})


def _reason(one: EffectDifference, obstacle: Obstacle) -> str:
    match obstacle.kind:
        case "failed":
            return "" if obstacle.effect is None else recorded_failure(obstacle.effect)
        case "no effect":
            return f"{obstacle.of} has no effect in one of the studies"
        case "alarm":
            return obstacle.of + ": " + alarm_clause(obstacle.alarm)
        case "few blocks":
            return agreed(f"fewer than {FEWEST_BLOCKS} blocks")
        case "no interval":
            return "a summary has no interval for it; `mydyno report` makes the summaries again"
        case "scatter":
            return scatter_reason(one.session_sd or 0.0, one.sessions)


def _refusal(one: Refused) -> NotCompared:
    """What cannot be compared, and why."""
    having = listing([label(place) for place in one.having]) if one.having else ""
    words = "; ".join([label(place) + ": " + (text or "defaults") for place, text in enumerate(one.definitions)])
    if one.kind == "step":
        what = f"load level {one.name}"
        if words:
            return NotCompared(what=what, reason=f"the workload's options differ ({words})")
        only = f"only {having} {'has' if len(one.having) == 1 else 'have'} it"
        return NotCompared(what=what, reason=only)
    if one.kind == "metric":
        what = f"metric {one.name}"
        if words:
            return NotCompared(what=what, reason=f"its definition differs ({words})")
        return NotCompared(what=what, reason=f"only {having} measured it")
    what = f"{one.name} against {one.control}"
    if one.early:
        early = listing([label(place) for place in one.early])
        return NotCompared(what=what, reason=f"{early} has not reached its first interim analysis")
    return NotCompared(what=what, reason=f"only in {having}")


CONCLUSIONS = (
    "The arms ran in the same blocks, so the session's speed cancels.",
    (
        "A contrast that the experiment does not declare was chosen after the results were known: it has an interval "
        "and no verdict. To get one, declare it with [[verdict.compare]] and run the experiment."
    ),
)


def compare_arms(study: SavedStudy, arms: Sequence[str]) -> ArmComparison:
    """The second and further arms against the first. Raises UserError for unknown arms, fewer than two, or no effects
    yet.
    """
    effects = arm_effects(study, arms)
    declared = all(one.declared for one in effects)
    made = ArmComparison(
        study=compared_study(study, 0),
        arms=tuple(arms),
        answer=(),
        conclusions=tuple(one for one in CONCLUSIONS[: 1 if declared else 2]),
        settings=arm_settings(study, arms),
        steps=study.summary.steps,
        effects=effects,
    )
    return made.model_copy(update={"answer": _answer(made, arm_metrics(study)[0])})


def _answer(made: ArmComparison, primary: str) -> tuple[str, ...]:
    """A sentence for each arm on the primary metric, at most three."""
    found = []
    for arm in made.arms[1:]:
        of_arm = (one for one in made.effects if (one.metric, one.arm) == (primary, arm))
        clauses = [f"{_words(one)}{at_step(made.steps, one.step)}" for one in of_arm]
        if clauses:
            found.append(f"{arm} against {made.arms[0]}, {phrase_of(primary).short_noun}: {'; '.join(clauses)}.")
    if len(found) > 3:
        return (*found[:2], f"{listing(made.arms[3:])}: see the table.")
    return tuple(found)


def _words(one: ArmEffect) -> str:
    if one.failure:
        return failure_clause(one.failure, one.arm, one.against)
    if one.ratio is None:
        return "no estimate"
    size = change_words(one.ratio, one.ci_low, one.ci_high)
    return ", ".join((size, one.verdict.replace("_", " "))) if one.verdict else size
