"""`factors`: each arm is a combination of levels, one of each factor."""

from __future__ import annotations

import itertools
from math import prod
from typing import Any

from mydyno.experiment_file.overrides import merged
from mydyno.model.definition.problems import Key, Problem

MOST_ARMS = 500
"""A larger product of factors is a mistake: such a study would take months."""


def product(members: dict[str, Any], problems: list[Problem]) -> tuple[dict[str, dict[str, Any]], dict[str, Key]]:
    """{factor: {level: treatments}} or {treatment: [values]} → {arm: treatments}, named by levels joined with "-"."""
    factors: list[list[tuple[str, dict[str, Any]]]] = []
    for factor, levels in members.items():
        if isinstance(levels, list) and levels:
            factors.append([(str(level), {factor: level}) for level in levels])
        elif isinstance(levels, dict) and levels and all(isinstance(value, dict) for value in levels.values()):
            factors.append(list(levels.items()))
        else:
            problems.append(Problem(("factors", factor), "must be a list of values or a table of levels", levels))
    arms: dict[str, dict[str, Any]] = {}
    count = prod(len(levels) for levels in factors)
    if count > MOST_ARMS:
        problems.append(Problem(("factors",), f"give {count} arms", allowed=f"at most {MOST_ARMS}"))
        return {}, {}
    for combination in itertools.product(*factors):
        treatments: dict[str, Any] = {}
        for _, level in combination:
            treatments = merged(treatments, level)
        name = "-".join(name for name, _ in combination)
        if name in arms:
            problems.append(Problem(("factors",), f"give two arms of the name {name!r}"))
        arms[name] = treatments
    return arms, dict.fromkeys(arms, ("factors",))
