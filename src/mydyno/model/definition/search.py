"""What a capacity search makes of an experiment: the primary metric, and what does not go with it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.problems import Key, Problem
from mydyno.model.definition.quantities import PositiveDuration

_DURATION: TypeAdapter[float] = TypeAdapter(PositiveDuration)

CAPACITIES = {"rate": "capacity_tps", "connections": "capacity_connections"}
"""What is searched → the metric of its result."""
LIMITS_PER_SLICE = 20
"""A slice is at least this many times the limit. A backlog that grows by x seconds a second reaches the limit after
limit / x: a shorter slice would call rates sustained that are more than 5 % too high."""
USUAL_LIMITS_PER_SLICE, USUAL_SLICE_S = 50, {"rate": 5.0, "connections": 2.0}
"""Where design.slice is not set. Also, few slices have most of the slow operations, so that a percentile of a short
slice is usually below that of a long one (bench/run capacity --queues)."""


def with_search_defaults(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The tree of an experiment; where a step has a search, with its verdict and the length of a slice, unless set."""
    tree = _with_search_verdict(tree)
    design = tree.get("design", {})
    limits = [found for one in _searches(tree) if (found := _seconds(one.get("limit"))) is not None]
    if not limits or not isinstance(design, dict) or "slice" in design:
        return tree
    usual_s = max(USUAL_SLICE_S.get(str(one.get("of", "rate")), 0.0) for one in _searches(tree))
    return {**tree, "design": {**design, "slice": max(usual_s, USUAL_LIMITS_PER_SLICE * max(limits))}}


def _searches(tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    steps = tree.get("steps")
    members = [one for one in steps if isinstance(one, dict)] if isinstance(steps, list) else []
    return [one["search"] for one in members if isinstance(one.get("search"), dict)]


def _seconds(limit: Any) -> float | None:
    """None: it is no duration, which is reported where it is validated."""
    try:
        return _DURATION.validate_python(limit)
    except ValidationError:
        return None


def _with_search_verdict(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The tree of an experiment; where a step has a search, the verdict is on the capacity and on nothing else.

    The rates are chosen by the search, so that throughput, latency and CPU time at them compare nothing.
    """
    steps = tree.get("steps")
    members = steps if isinstance(steps, list) else []
    if not any(isinstance(one, dict) and one.get("search") is not None for one in members):
        return dict(tree)
    verdict = tree.get("verdict")
    plain = dict(verdict) if isinstance(verdict, dict) else {}
    of = next((str(one.get("of", "rate")) for one in _searches(tree)), "rate")
    return {**tree, "verdict": {**plain, "primary": CAPACITIES.get(of, CAPACITIES["rate"]), "cost": False}}


def search_problems(experiment: Experiment) -> list[Problem]:
    """Mistakes of an experiment with a search; empty if it has none."""
    if not experiment.is_search:
        return []
    problems = []
    if experiment.most_instances > 1:
        problems.append(Problem(("instances",), "a search loads one server at a time", allowed="1 with steps.search"))
    if (kind := experiment.design.kind) in ("blocks", "switchback"):
        allowed = '"interleaved" or "auto" with steps.search'
        problems.append(
            Problem(("design", "kind"), "a search needs slices of servers of its own", kind, allowed=allowed)
        )
    if experiment.verdict.compare:
        problems.append(Problem(("verdict", "compare"), "a search measures the capacity alone: remove it"))
    for index, spec in enumerate(experiment.steps):
        key: Key = ("steps", index, "search")
        if spec.search is None:
            allowed = "a search in every step, or in none: make it two experiments"
            problems.append(Problem(key, "is missing, and other steps have one", allowed=allowed))
            continue
        if len({one.search.of for one in experiment.steps if one.search is not None}) > 1:
            allowed = "the same in every step: make it two experiments"
            problems.append(Problem((*key, "of"), "differs between steps", spec.search.of, allowed))
        if spec.rate:
            problems.append(Problem(key, "finds the rate, and a rate is set too", allowed="only one of the two"))
        least_s = LIMITS_PER_SLICE * spec.search.limit
        if experiment.design.slice < least_s:
            allowed = f'at least {LIMITS_PER_SLICE} times the limit: "{least_s:g}s"'
            problems.append(
                Problem(("design", "slice"), "is too short to show the limit", f"{experiment.design.slice:g}s", allowed)
            )
    return problems
