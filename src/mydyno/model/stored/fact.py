"""What a verdict, a conclusion or a comparison with a published figure rests on, without words. Frozen; no I/O."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mydyno.model.frozen_record import Record

Because = Literal[
    "exploratory", "undecided", "both within", "equivalent", "contains both", "inside", "near", "another size",
    "outside", "opposite",
]  # fmt: skip


class Figure(Record):
    """A ratio with its 95 % interval over blocks; without `low` and `high` there are too few blocks."""

    ratio: float | None
    low: float | None
    high: float | None


class FactEffect(Record):
    """An effect with its verdict."""

    step: str
    arm: str
    control: str
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    verdict: str


class ComparedRatio(Record):
    """A published ratio beside this study's interval.

    `because`: nothing was decided ("exploratory", "undecided"); "both within" the margin; an "equivalent" interval that
    does not reach the published ratio, or one that "contains both" it and no change; the published ratio is "inside" or
    "outside" the interval, within the margin of the ratio measured ("near"), in the same direction with "another size",
    or in the "opposite" direction.
    """

    because: Because
    published: float
    verdict: str
    low: float
    high: float
    margin: float


FactValue = str | int | float | Figure | FactEffect | ComparedRatio


class Fact(Record):
    """One fact: what it is, as wording/ knows it, and its values. Shares of 1 are float."""

    fact: str
    values: dict[str, FactValue] = Field(default_factory=dict)
    """By name."""


def fact(name: str, **values: FactValue) -> Fact:
    """The fact with its values by name."""
    return Fact(fact=name, values=values)
