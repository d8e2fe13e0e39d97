"""`vary`: one server variable, environment variable or sysctl, and its values; each value becomes an arm.

    vary.variables.innodb_flush_log_at_trx_commit = [1, 2]

The first value is the control. Dots in a name are part of it: vary.sysctl.vm.swappiness = [60, 1].
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from math import prod
from typing import Any

from mydyno.experiment_file.overrides import merged
from mydyno.model.definition.problems import Key, Problem

TREATMENTS = ("variables", "environment", "sysctl")
EXAMPLE = "e.g. vary.variables.innodb_flush_log_at_trx_commit = [1, 2]"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
NAME_CHARACTERS = 48
MOST_ARMS = 500
"""A larger product of factors is a mistake: such a study would take months."""


def arms_of(table: object) -> tuple[dict[str, Any], list[Problem]]:
    """([arms] as a file would contain it, control included; problems). Empty if anything is."""
    if not isinstance(table, dict):
        return {}, [Problem(("vary",), "must be a table", table, EXAMPLE)]
    found = list(_leaves(table, ()))
    if len(found) != 1:
        said = ", ".join(".".join(path) for path, _ in found) or "nothing"
        return {}, [Problem(("vary",), "takes one setting; use [factors] for several", said, EXAMPLE)]
    (treatment, *rest), values = found[0]
    key = ("vary", treatment, *rest)
    if treatment not in TREATMENTS:
        return {}, [
            Problem(("vary", treatment), "cannot be used with vary; use [arms]", treatment, ", ".join(TREATMENTS))
        ]
    name = ".".join(rest)
    if not name or not isinstance(values, list) or len(values) < 2:
        return {}, [Problem(key, "needs a list of two values or more", values, EXAMPLE)]
    if any(isinstance(value, dict | list) for value in values):
        return {}, [Problem(key, "takes plain values", values, EXAMPLE)]
    arms = {arm_name(rest[-1], value): {treatment: {name: value}} for value in values}
    if len(arms) < len(values):
        return {}, [Problem(key, "results in two arms of the same name", values, "values that differ")]
    return {"control": arm_name(rest[-1], values[0]), **arms}, []


def arm_name(setting: str, value: object) -> str:
    """An arm's name: the setting's and its value, or the value alone where both are too long for a name.

    What names cannot hold becomes a dash.
    """
    text = ("on" if value else "off") if isinstance(value, bool) else _NOT_IN_NAMES.sub("-", str(value)).strip("-._")
    text = f"minus-{text}" if str(value).startswith("-") else text or "empty"
    whole = f"{setting}-{text}".lstrip("-._")
    return whole if len(whole) <= NAME_CHARACTERS else text[:NAME_CHARACTERS]


def _leaves(table: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def product(members: dict[str, Any], problems: list[Problem]) -> tuple[dict[str, dict[str, Any]], dict[str, Key]]:
    """`factors`: each arm is a combination of levels, one of each factor.

    {factor: {level: treatments}} or {treatment: [values]} → {arm: treatments}, named by levels joined with "-"."""
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
