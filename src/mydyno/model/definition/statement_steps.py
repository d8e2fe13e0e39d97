"""What does not go with a step whose statements are compared one by one. Pure.

The speed of a step that replays a capture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mydyno.model.definition.experiment import Experiment, Step, StepSpec
from mydyno.model.definition.problems import Key, Problem

PRIMARY = "latency_mean_us"
"""Of all statements together, weighted by how often the capture has each."""
MARGIN = "5%"


def with_statement_defaults(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The tree of an experiment; where a step compares statements, with its verdict and what such a step has, unless
    set.
    """
    steps, verdict = tree.get("steps"), tree.get("verdict", {})
    if not isinstance(steps, list) or not isinstance(verdict, dict) or not any(map(_compares, steps)):
        return dict(tree)
    made = [{"warmup": "0s", "connections": 1, **one} if _compares(one) else one for one in steps]
    return {**tree, "verdict": {"primary": PRIMARY, "margin": MARGIN, **verdict}, "steps": made}


def _compares(step: object) -> bool:
    return isinstance(step, Mapping) and step.get("statements") is True


def statement_problems(experiment: Experiment) -> list[Problem]:
    """Mistakes of an experiment that compares statements; empty if it does not."""
    if not experiment.compares_statements:
        return []
    problems = []
    if len(experiment.resolved_steps) > 1:
        problems.append(Problem(("steps",), "statements are compared in one step alone: make it several experiments"))
    if experiment.most_instances > 1:
        problems.append(
            Problem(("instances",), "one server of each arm is compared", allowed="1 with steps.statements")
        )
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
        if spec.warmup:
            problems.append(Problem(key, "has no warm-up: each statement is executed before it is timed"))
        if spec.rate or spec.search is not None or speed_of(spec) is not None:
            problems.append(Problem(key, "has no rate, no search and no speed: statements are repeated one by one"))
    return problems


def speed_of(step: Step | StepSpec) -> float | None:
    """How many times as fast as captured a step replays; None: without the captured times, or no replay."""
    speed = step.options.get("speed", "max")
    if step.replay is None or speed == "max":
        return None
    return 1.0 if speed == "original" else float(speed)
