"""The comparison of arms of one study with its sentences, as `mydyno compare --arms` prints it."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.evaluation.compare import compared_study
from mydyno.language import listing
from mydyno.model.metrics import phrase_of
from mydyno.model.stored.comparison import ArmComparison, ArmEffect
from mydyno.results.across.arms import arm_effects, arm_metrics
from mydyno.results.across.saved import SavedStudy
from mydyno.results.across.settings import arm_settings
from mydyno.wording.across.sentences import at_step
from mydyno.wording.numbers import change_words
from mydyno.wording.reasons import failure_clause

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
