"""What a capacity search, or the comparison of statements one by one, makes of an experiment: the primary metric, and
what does not go with it. The speed of a step that replays a capture. Whether connections always have a transaction
under way, and how many can be. Which metrics are a server's memory: compared where every arm has served as many queries
since its start. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mydyno.model.definition.experiment import Experiment, Step, StepSpec
from mydyno.model.definition.problems import Key, Problem
from mydyno.model.definition.quantities import PositiveDuration
from mydyno.model.metrics import GROWTH

MEMORY = ("server_rss_bytes", "server_rss_peak_bytes", "server_vsize_bytes")
"""Compared at equal load history, not at equal time."""
EARLY = "server_rss_early_bytes"
QUERIES, EARLY_QUERIES = "memory_queries", "memory_early_queries"


def is_memory(metric: str) -> bool:
    """Whether the metric is memory of the servers."""
    return metric in (*MEMORY, EARLY, GROWTH) or metric.startswith(("server_rss_", "server_pss_"))


def compares_memory(experiment: Experiment) -> bool:
    """Whether memory is a metric of the question."""
    return any(map(is_memory, experiment.verdict.primary))


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


ALWAYS_BUSY = ("oltp_", "tpcc", "kv_")
"""Beginning of the names of workloads of mydyno's own: their connections have no time between transactions."""


def is_closed(step: Step) -> bool:
    """Whether the step has no rate: the next transaction begins when one has ended."""
    return step.rate is None and step.search is None and not step.options.get("rate")


def is_paced(step: Step) -> bool:
    """Whether transactions begin when they are due: at a rate, in a search, or at captured times."""
    return not is_closed(step) or speed_of(step) is not None


def thinks(step: Step) -> bool:
    """Whether connections may be idle between transactions (think times, a script of the user's own)."""
    own = step.file is None and step.workload.startswith(ALWAYS_BUSY)
    return not own or bool(step.options.get("key_and_think_times"))


def slots(experiment: Experiment, arm: str, step: Step) -> int:
    """How many transactions can be under way: connections of all servers of a run, times operations on each."""
    depth = int(step.options.get("depth", 1))
    terminals = int(step.options.get("terminals", 0)) if step.options.get("key_and_think_times") else 0
    return max(step.connections, terminals) * depth * experiment.instances_of(experiment.arm(arm))
