"""The thresholds of `mydyno gate`: how much worse than its control an arm may be.

A key is a metric, its value a limit or a list of limits:

    [thresholds]
    qps = "no worse than -2%"
    server_cpu_us_per_query = "no worse than +3%"
    latency_p99_us = ["no worse than +10% at oltp_read_write-64", "no worse than +25% for new at oltp_read_only"]

A limit is `no worse than N% [for ARM, …] [at STEP, …]`, or `none` for no threshold (in a scale, or with --threshold).
Its sign is that of a change for the worse: negative where more is better, positive where less is better; without a sign
it is the same. Without `for` it holds for every arm that has a control, without `at` at every load level; STEP is the
id that `mydyno plan` prints, or a workload, which is all of its load levels. [What `mydyno gate`
decides](../guides/gate.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mydyno.errors import UserError
from mydyno.model.definition.experiment import Experiment, ThresholdSpec
from mydyno.model.definition.problems import Key, Problem, nearest, unknown
from mydyno.model.metrics import METRICS, common_name, metric_source

GRAMMAR = '"no worse than -2%", then if needed " for ARM" and " at STEP"'
NONE = "none"
_NAMES = r"[^\s,]+(?:\s*,\s*[^\s,]+)*"
_LIMIT = re.compile(
    rf"\s*no\s+worse\s+than\s+(?P<sign>[+\-\N{{MINUS SIGN}}]?)\s*(?P<percent>\d+(?:\.\d+)?)\s*%"
    rf"(?:\s+for\s+(?P<arms>{_NAMES}))?(?:\s+at\s+(?P<steps>{_NAMES}))?\s*"
)
LIMIT_PATTERN = (
    r"^\s*(none|no\s+worse\s+than\s+[+\-\u2212]?\s*\d+(\.\d+)?\s*%(\s+for\s+[^\s,]+(\s*,\s*[^\s,]+)*)?"
    r"(\s+at\s+[^\s,]+(\s*,\s*[^\s,]+)*)?)\s*$"
)
"""The grammar as JSON Schema has it."""
MOST_PERCENT = {"higher": 100.0, "lower": 1000.0}
"""Limits are below this: throughput cannot fall by more than 100 %."""


def limit_words(one: ThresholdSpec) -> str:
    """A threshold as a file has it: qps: no worse than -2% for new at oltp_read_only-16."""
    arms = f" for {', '.join(one.arms)}" if one.arms else ""
    steps = f" at {', '.join(one.steps)}" if one.steps else ""
    return f"{one.metric}: no worse than {one.limit * 100:+g}%{arms}{steps}"


def judged_metrics() -> list[str]:
    """The metrics that can have a threshold: higher or lower is better."""
    return [name for name, source in METRICS.items() if source.better != "none"]


def parse_table(table: object) -> tuple[tuple[ThresholdSpec, ...], list[Problem]]:
    """What [thresholds] contains and what is wrong with its metrics and limits; arms and steps are not looked at."""
    if table is None:
        return (), []
    if not isinstance(table, dict):
        return (), [Problem(("thresholds",), "must be a table", table, allowed=f"METRIC = LIMIT, {GRAMMAR}")]
    found: list[ThresholdSpec] = []
    problems: list[Problem] = []
    for metric, limits in table.items():
        key: Key = ("thresholds", metric)
        source = metric_source(metric)
        if source is None or source.better == "none":
            problems.append(_unknown_metric(key, metric))
            continue
        several = limits if isinstance(limits, list) else [limits]
        for place, limit in enumerate(several):
            one = _threshold(metric, source.better, limit, (*key, place) if isinstance(limits, list) else key)
            if isinstance(one, Problem):
                problems.append(one)
            elif one is not None:
                found.append(one)
    return tuple(found), problems


def _unknown_metric(key: Key, metric: str) -> Problem:
    names = judged_metrics()
    if metric_source(metric) is not None:
        return Problem(key, "neither more nor less of it is better", allowed=", ".join(names))
    guess = found if (found := common_name(metric)) != metric else nearest(metric, names)
    return replace(unknown(key, "metric", metric, names), nearest=guess)


def _threshold(metric: str, better: str, limit: object, key: Key) -> ThresholdSpec | Problem | None:
    if isinstance(limit, str) and limit.strip() == NONE:
        return None
    match = _LIMIT.fullmatch(limit) if isinstance(limit, str) else None
    if match is None:
        return Problem(key, "not understood", limit, allowed=GRAMMAR)
    worse, more = ("-", "more") if better == "higher" else ("+", "less")
    sign = match["sign"].replace("\N{MINUS SIGN}", "-")
    percent = float(match["percent"])
    if sign not in ("", worse):
        allowed = f'"no worse than {worse}{match["percent"]}%"'
        return Problem(key, f"{more} is better, so a change for the worse has the sign {worse}", limit, allowed=allowed)
    if not 0.0 < percent < MOST_PERCENT[better]:
        allowed = f"above 0 % and below {MOST_PERCENT[better]:g} %; that two things are exactly equal cannot be shown"
        return Problem(key, "out of range", limit, allowed=allowed)
    return ThresholdSpec(
        metric=metric,
        limit=round(percent / 100.0 if worse == "+" else -percent / 100.0, 12),
        arms=_names(match["arms"]),
        steps=_names(match["steps"]),
    )


def _names(listed: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in listed.split(","))) if listed else ()


def selector_problems(thresholds: Iterable[ThresholdSpec], experiment: Experiment) -> list[Problem]:
    """Arms and steps that thresholds name and the experiment does not have.

    Where no arm is compared, arms are not checked: --base and --head may bring others, else with_thresholds() refuses.
    """
    compared = _compared(experiment)
    steps = [step.id for step in experiment.resolved_steps]
    workloads = list(dict.fromkeys(step.workload for step in experiment.resolved_steps))
    problems = []
    for one in thresholds:
        key: Key = ("thresholds", one.metric)
        for arm in one.arms:
            if compared and arm not in compared:
                control = any(arm == known.name for known in experiment.arms)
                kind = "arm that is compared: this one is the control" if control else "arm that is compared"
                problems.append(Problem(key, f"unknown {kind}", arm, ", ".join(compared), nearest(arm, compared)))
        problems += [
            Problem(key, "unknown load level", step, ", ".join(dict.fromkeys((*workloads, *steps))),
                    nearest(step, [*steps, *workloads]))
            for step in one.steps
            if step not in steps and step not in workloads
        ]  # fmt: skip
    return problems


def _compared(experiment: Experiment) -> list[str]:
    return [arm for arms in experiment.contrasts().values() for arm in arms]


def with_thresholds(experiment: Experiment, given: Sequence[str]) -> Experiment:
    """The experiment with thresholds given as METRIC=LIMIT in place of its own for the same metric.

    Several for one metric all count. Raises UserError that lists every mistake, and where no arm is compared.
    """
    tables: dict[str, list[str]] = {}
    lines = []
    for text in given:
        metric, equals, limit = text.partition("=")
        if not equals or not metric.strip():
            lines.append(f"--threshold {text}: not understood; allowed: METRIC=LIMIT, e.g. qps='no worse than -2%'")
        else:
            tables.setdefault(metric.strip(), []).append(limit.strip().strip("\"'"))
    found, problems = parse_table(tables)
    problems += selector_problems(found, experiment) if given and not problems else []
    for problem in problems:
        lines.append(Problem(problem.key[1:2], problem.message, problem.value, problem.allowed, problem.nearest).text(
            "--threshold"))  # fmt: skip
    if lines:
        count = f"{len(lines)} mistakes" if len(lines) > 1 else "a mistake"
        raise UserError(f"{count} in --threshold; nothing was started\n  " + "\n  ".join(lines))
    kept = tuple(one for one in experiment.thresholds if one.metric not in tables)
    if (kept or found) and not _compared(experiment):
        raise UserError(
            f"{experiment.name}: no arm is compared with another",
            "add an arm to the experiment, or compare two commits of one that is built from git: --base REF --head REF",
        )
    return experiment.model_copy(update={"thresholds": (*kept, *found)})


def limit_schema() -> dict[str, Any]:
    """The JSON Schema of [thresholds]."""
    limit = {"type": "string", "pattern": LIMIT_PATTERN}
    either: Mapping[str, Any] = {"anyOf": [limit, {"type": "array", "items": limit}]}
    return {
        "type": "object",
        "description": "thresholds of `mydyno gate`: metric = limit",
        "properties": {name: dict(either) for name in judged_metrics()},
        "patternProperties": {r"^\w+_instance_[1-9]\d*$": dict(either)},
        "additionalProperties": False,
    }
