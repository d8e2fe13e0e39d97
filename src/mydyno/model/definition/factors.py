"""Arms that are the full product of factors: found from what the arms set, so that reports can show them as a grid.

The experiment as resolved holds arms alone. Settings that change together are one factor; the arms are a product if
every combination of the factors' levels is there exactly once and the arms' names are the levels' names joined by "-".

Only a pair of arms that differ in one setting shows the effect of that setting.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from mydyno.model.definition.experiment import ArmSpec

ABSENT = "absent"
MOST_FACTORS = 5


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor: the setting's name and its levels, as written in the arms' names, in order of appearance."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Factors:
    """The factors in the order in which the arms' names have them."""

    factors: tuple[Factor, ...]
    levels_of: Mapping[str, tuple[str, ...]]
    """Arm → its level of each factor."""

    def arm(self, levels: Sequence[str]) -> str:
        """The arm with these levels, in the order of the factors. Raises KeyError."""
        for arm, of_arm in self.levels_of.items():
            if of_arm == tuple(levels):
                return arm
        raise KeyError(levels)

    def level_shared_by(self, arms: Sequence[str], among: Sequence[str]) -> str | None:
        """The level that these arms have and no other of `among` has; None if there is none."""
        wanted = set(arms)
        for index, factor in enumerate(self.factors):
            for level in factor.levels:
                if {arm for arm in among if self.levels_of[arm][index] == level} == wanted:
                    return level
        return None


def factors_of(arms: Sequence[ArmSpec]) -> Factors | None:
    """The factors whose full product the arms are, two at least; None if the arms are no such product."""
    if len(arms) < 4:
        return None
    for depth in (1, 2):
        settings = {arm.name: dict(_settings(arm.treatments, depth)) for arm in arms}
        columns = _columns(settings)
        levels = [list(dict.fromkeys(values)) for values in columns.values()]
        combinations = set(zip(*columns.values(), strict=True)) if columns else set()
        if (
            not 2 <= len(columns) <= MOST_FACTORS
            or prod(map(len, levels)) != len(arms)
            or len(combinations) < len(arms)
        ):
            continue
        found = _named(list(settings), columns)
        if found is not None:
            return found
    return None


def _settings(treatments: Mapping[str, Any], depth: int, above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in treatments.items():
        name = f"{above}.{key}" if above else key
        if depth > 1 and isinstance(value, dict):
            yield from _settings(value, depth - 1, name)
        else:
            yield name, json.dumps(value, sort_keys=True, default=str)


def _columns(settings: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """{setting: its value in each arm} of the settings that vary; of those that change together only the first.

    A setting that another one determines changes with it, although not at each of its levels: whether there is a binary
    log, beside how often it is synced.
    """
    columns: dict[str, tuple[str, ...]] = {}
    patterns = set()
    for key in dict.fromkeys(key for of_arm in settings.values() for key in of_arm):
        values = tuple(of_arm.get(key, ABSENT) for of_arm in settings.values())
        order = list(dict.fromkeys(values))
        pattern = tuple(order.index(value) for value in values)
        if len(order) > 1 and pattern not in patterns:
            patterns.add(pattern)
            columns[key] = values
    return {
        key: values
        for key, values in columns.items()
        if not any(other is not values and _determines(other, values) for other in columns.values())
    }


def _determines(finer: tuple[str, ...], values: tuple[str, ...]) -> bool:
    """Whether the second setting's value follows from the first one's in every arm."""
    return len(set(zip(finer, values, strict=True))) == len(set(finer))


def _named(names: Sequence[str], columns: Mapping[str, tuple[str, ...]]) -> Factors | None:
    """The factors with their levels' names, from the one way to cut the names that suits all arms."""
    for order in itertools.permutations(columns):
        parts = names[0].split("-")
        for cuts in itertools.combinations(range(1, len(parts)), len(order) - 1):
            bounds = [0, *cuts, len(parts)]
            first = ["-".join(parts[a:b]) for a, b in itertools.pairwise(bounds)]
            levels_of = _levels(names, [columns[key] for key in order], first)
            if levels_of is not None:
                factors = tuple(
                    Factor(key, tuple(dict.fromkeys(levels[index] for levels in levels_of.values())))
                    for index, key in enumerate(order)
                )
                return Factors(factors, levels_of)
    return None


def _levels(
    names: Sequence[str], columns: Sequence[tuple[str, ...]], first: Sequence[str]
) -> dict[str, tuple[str, ...]] | None:
    """Each arm's levels by name, given those of the first arm; None if a name does not agree."""
    labels: list[dict[str, str]] = [{values[0]: label} for values, label in zip(columns, first, strict=True)]
    for index in range(len(columns)):
        before, after = "-".join([*first[:index], ""]), "-".join(["", *first[index + 1 :]])
        for place, name in enumerate(names):
            alone = all(values[place] == values[0] for other, values in enumerate(columns) if other != index)
            if alone and name.startswith(before) and name.endswith(after):
                labels[index].setdefault(columns[index][place], name[len(before) : len(name) - len(after) or None])
    found: dict[str, tuple[str, ...]] = {}
    for place, name in enumerate(names):
        levels = tuple(label.get(values[place], "") for values, label in zip(columns, labels, strict=True))
        if "" in levels or "-".join(levels) != name:
            return None
        found[name] = levels
    return found


def only_difference(first: ArmSpec, second: ArmSpec) -> str | None:
    """The one treatment in which two arms differ; None if they differ in none or in several."""
    names = {*first.treatments, *second.treatments}
    differing = [name for name in names if first.treatments.get(name) != second.treatments.get(name)]
    return differing[0] if len(differing) == 1 else None
