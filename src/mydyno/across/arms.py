"""The comparison of arms of one study.

Arms are each compared with the first that was named, from the same blocks. A contrast that the experiment declares has
the interval and the verdict of the study's report. One that it does not declare was chosen after the results were
there: it gets an interval, held together over all such contrasts of this comparison, and no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mydyno.across.compare import compared_study
from mydyno.across.comparison import Rows, answer_part, by_step, effect_cell, metric_at, noise_part
from mydyno.across.saved import SavedStudy
from mydyno.across.settings import arm_settings, settings_part
from mydyno.document.parts import Cell, Document, Table
from mydyno.errors import UserError
from mydyno.language import listing
from mydyno.model.definition.problems import with_guess
from mydyno.model.metrics import phrase_of
from mydyno.model.stored.comparison import ArmComparison, ArmEffect
from mydyno.model.stored.summary import EffectRecord, at_step
from mydyno.results.families import families
from mydyno.verdicts import Family, decide_study
from mydyno.wording.numbers import change_words, when
from mydyno.wording.verdicts import failure_clause

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
    effects, own = arm_effects(study, arms), compared_study(study, 0)
    if own.alarm:
        effects = tuple(one.model_copy(update={"verdict": "not_measurable"}) for one in effects)
    declared = all(one.declared for one in effects)
    made = ArmComparison(
        study=own,
        arms=tuple(arms),
        answer=(),
        conclusions=CONCLUSIONS[: 1 if declared else 2],
        settings=arm_settings(study, arms),
        steps=study.summary.steps,
        effects=effects,
    )
    return made.model_copy(update={"answer": _answer(made, study.judged_metrics[0])})


def _answer(made: ArmComparison, primary: str) -> tuple[str, ...]:
    """A sentence for each arm on the primary metric, at most three; or that the control differs from its copy."""
    if made.study.alarm:
        return (f"Two equal servers differ, so no difference is claimed: {made.study.alarm}.",)
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


def arms_document(comparison: ArmComparison, whole: bool = False) -> Document:
    """Of arms of one study. `whole`: with all tables."""
    study, arms = comparison.study, comparison.arms
    return Document(
        title=f"{', '.join(arms[1:])} against {arms[0]} in {study.study}",
        over="arms of one study",
        below=f"{study.question} {when(study.created_unix_ns)} UTC · {study.server}",
        parts=[
            answer_part(comparison.answer, arms_table(comparison), comparison.conclusions),
            settings_part(comparison.settings, arms, whole),
            noise_part([study], comparison.steps),
        ],
    )


def arms_table(comparison: ArmComparison) -> Table:
    """Arms of one study against the first one."""
    rows: Rows = []
    for (metric, step), effects in by_step(comparison.effects).items():
        rows.append([metric_at(metric, comparison.steps, step)])
        rows += [
            [
                one.arm,
                effect_cell(one, one.arm, one.against, one.metric),
                "declared" if one.declared else "not declared",
                Cell(str(one.n), "num"),
            ]
            for one in effects
        ]
    head = ("arm", f"relative to {comparison.arms[0]}", "contrast", "blocks")
    return Table(f"Relative to {comparison.arms[0]}, from the same blocks", head, rows)


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
    metrics, pairs = study.judged_metrics, [(arm, arms[0]) for arm in arms[1:]]
    declared = [one for metric in metrics for pair in pairs for one in _declared(study, metric, pair)]
    found = declared + _undeclared(study, [pair for pair in pairs if not _declared(study, metrics[0], pair)])
    order = {step.id: place for place, step in enumerate(study.summary.steps)}
    return tuple(sorted(found, key=lambda one: (metrics.index(one.metric), order[one.step], arms.index(one.arm))))


def _declared(study: SavedStudy, metric: str, pair: tuple[str, str]) -> list[ArmEffect]:
    """The effects of a declared contrast; turned round where the control was not named first."""
    judged = [one for one in study.summary.effects if one.metric == metric and one.verdict is not None]
    found = (one if (one.arm, one.control) == pair else _turned(one) for one in judged)
    return [_arm_effect(one, True) for one in found if (one.arm, one.control) == pair]


def _undeclared(study: SavedStudy, pairs: Sequence[tuple[str, str]]) -> list[ArmEffect]:
    if not pairs:
        return []
    runs = [run for run in study.summary.runs if run.block in study.examined_blocks]
    own = [
        family
        for family in families(study.study.experiment, runs, study.judged_metrics)
        if family.control == study.summary.control
    ]
    effects = decide_study([_family(family, *pair) for family in own for pair in pairs])
    kept = (one.model_copy(update={"verdict": None}) for one in effects if (one.arm, one.control) in pairs)
    return [_arm_effect(one, False) for one in kept]


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


def _arm_effect(one: EffectRecord, declared: bool) -> ArmEffect:
    of = {"metric": one.metric, "step": one.step, "arm": one.arm, "against": one.control}
    return ArmEffect.of(one, **of, declared=declared)


def _turned(one: EffectRecord) -> EffectRecord:
    """The effect of the control against the arm."""
    failure, verdict = one.details.failure, {"higher": "lower", "lower": "higher"}.get(one.verdict or "", one.verdict)
    if failure is not None:
        failure = failure.model_copy(update={"who": "control" if failure.who == "arm" else "arm"})
    return one.model_copy(
        update={
            "arm": one.control,
            "control": one.arm,
            "ratio": None if one.ratio is None else 1.0 / one.ratio,
            "ci_low": None if one.ci_high is None else 1.0 / one.ci_high,
            "ci_high": None if one.ci_low is None else 1.0 / one.ci_low,
            "verdict": verdict,
            "details": one.details.model_copy(update={"failure": failure}),
        }
    )
