"""The comparison of studies, or of arms of one study, with its sentences, as `mydyno compare` prints it."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.evaluation.answer import answer_study
from mydyno.language import agreed, listing
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
from mydyno.model.stored.summary import StepLevel
from mydyno.results.across.arms import arm_effects, arm_metrics
from mydyno.results.across.common_ground import Refused
from mydyno.results.across.compare import ALPHA, FEWEST_BLOCKS, ComparedContrast, Obstacle, compared, noise_of
from mydyno.results.across.saved import SavedStudy, label
from mydyno.results.across.settings import arm_settings
from mydyno.results.precision import alarm_of
from mydyno.wording.across.sentences import answer, at_step, conclusions, definition_note, scatter_reason, study_notes
from mydyno.wording.across.settings import worded_settings
from mydyno.wording.numbers import change_words
from mydyno.wording.reasons import alarm_clause, failure_clause, recorded_failure


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
