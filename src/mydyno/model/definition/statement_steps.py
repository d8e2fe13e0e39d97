"""What does not go with a step whose statements are compared one by one. Pure."""

from __future__ import annotations

from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.problems import Key, Problem
from mydyno.model.definition.replay_speed import speed_of


def statement_problems(experiment: Experiment) -> list[Problem]:
    """Mistakes of an experiment that compares statements; empty if it does not."""
    if not experiment.compares_statements:
        return []
    problems = []
    if len(experiment.resolved_steps) > 1:
        problems.append(Problem(("steps",), "statements are compared in one step alone: make it several experiments"))
    if experiment.most_instances > 1:
        problems.append(Problem(("instances",), "one server of each arm is compared", allowed="1 with steps.statements"))
    if (kind := experiment.design.kind) in ("blocks", "switchback"):
        allowed = '"interleaved" or "auto" with steps.statements'
        problems.append(Problem(("design", "kind"), "every statement needs all servers at once", kind, allowed=allowed))
    if any("network" in arm.treatments for arm in experiment.arms):
        problems.append(Problem(("arms",), "statements are sent from this host: remove `network`"))
    for index, spec in enumerate(experiment.steps):
        key: Key = ("steps", index, "statements")
        if spec.replay is None:
            allowed = 'replay = "FILE", a file of `dynoload capture`'
            problems.append(Problem(key, "needs a capture", allowed=allowed))
        if spec.rate or spec.search is not None or speed_of(spec) is not None:
            problems.append(Problem(key, "has no rate, no search and no speed: statements are repeated one by one"))
    return problems
