"""`screen`: which of many variables matter? Their values, multiplied out into the runs of a screening design.

    [screen.variables]
    innodb_flush_log_at_trx_commit = [1, 2]
    innodb_buffer_pool_size = ["256M", "16M"]

The first value of each is its present setting. Every run of the design is an arm; the run with every first value is the
control. Plackett and Burman's designs (Biometrika 33 (1946)) show k main effects in little more than k runs, each of
them from all runs; with the foldover (every run again with all values exchanged) they are free of interactions between
two variables. Definitive screening designs (Jones and Nachtsheim, Journal of Quality Technology 43 (2011)) have a value
in the middle too, and are free of those interactions by themselves. The matrices are pyDOE's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from mydyno.model.definition.experiment import ArmSpec, Scalar, ScreenSpec
from mydyno.model.definition.problems import Problem, from_validation

MOST_FACTORS = 31
FEWEST_FACTORS = 2
EXAMPLE = "e.g. screen.variables.innodb_flush_log_at_trx_commit = [1, 2]"
CONTROL = "present"
"""The arm with the first value of every variable."""

Row = tuple[int, ...]
"""A run of the design: −1 for the first value of each variable, 1 for the last, 0 for the one between."""


def arms_of(table: object) -> tuple[dict[str, Any], list[Problem]]:
    """([arms] as a file would contain it, control included; problems). Empty if anything is wrong."""
    try:
        spec = ScreenSpec.model_validate(table)
    except ValidationError as error:
        return {}, from_validation(error, ("screen",), {"screen": ScreenSpec})
    problems = _problems(spec)
    if problems:
        return {}, problems
    arms: dict[str, Any] = {"control": CONTROL}
    for number, row in enumerate(rows_of(spec)):
        values = {name: level_of(levels, x) for (name, levels), x in zip(spec.variables.items(), row, strict=True)}
        arms[f"run-{number:02d}" if number else CONTROL] = {"variables": values}
    return arms, []


def _problems(spec: ScreenSpec) -> list[Problem]:
    count = len(spec.variables)
    if not FEWEST_FACTORS <= count <= MOST_FACTORS:
        allowed = f"{FEWEST_FACTORS} to {MOST_FACTORS}; {EXAMPLE}"
        return [Problem(("screen", "variables"), f"are {count}", allowed=allowed)]
    needed = 3 if spec.design == "definitive" else 2
    problems = []
    for name, levels in spec.variables.items():
        key = ("screen", "variables", name)
        if len(levels) != needed:
            allowed = "three: first, middle, last" if needed == 3 else "two: the present one and another"
            problems.append(Problem(key, f"has {len(levels)} values", list(levels), allowed))
        elif len(set(map(str, levels))) < needed:
            problems.append(Problem(key, "has the same value twice", list(levels), "values that differ"))
    if spec.foldover and spec.design == "definitive":
        allowed = "without foldover: a definitive screening design contains its own"
        problems.append(Problem(("screen", "foldover"), "is set with a definitive design", allowed=allowed))
    return problems


def level_of(levels: Sequence[Scalar], x: int) -> Scalar:
    """The value that a design's −1, 0 or 1 stands for."""
    return levels[0] if x < 0 else levels[-1] if x > 0 else levels[len(levels) // 2]


def rows_of(spec: ScreenSpec) -> list[Row]:
    """The runs of the design, the one with every first value first."""
    # numpy and scipy come with it: half a second that other experiments do not need.
    import pydoe

    count = len(spec.variables)
    if spec.design == "definitive":
        found = [tuple(int(x) for x in row) for row in pydoe.definitive_screening_design(count)]
        return [(-1,) * count, *found]
    rows: list[Row] = []
    columns = count
    while not rows:
        try:
            rows = [tuple(-int(x) for x in row[:count]) for row in pydoe.pbdesign(columns)]
        except ValueError:  # no design of that many runs (28, 36, …): the next larger one
            columns += 4
    if spec.foldover:
        rows += [tuple(-x for x in row) for row in rows]
    base = (-1,) * count
    return [base, *(row for row in rows if row != base)]


def coded(spec: ScreenSpec, arms: Sequence[ArmSpec]) -> dict[str, Row]:
    """{arm: its row of the design}, from the values that the arms set."""

    def x(levels: Sequence[Scalar], value: object) -> int:
        return -1 if value == levels[0] else 1 if value == levels[-1] else 0

    return {
        arm.name: tuple(x(levels, _values(arm).get(name)) for name, levels in spec.variables.items()) for arm in arms
    }


def _values(arm: ArmSpec) -> Mapping[str, Any]:
    values: Mapping[str, Any] = arm.treatments.get("variables", {})
    return values
