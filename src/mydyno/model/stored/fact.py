"""What a verdict, a conclusion or a comparison with a published figure rests on, without words. Frozen; no I/O."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mydyno.model.frozen_record import Record


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
    """A published ratio beside this study's: see stats/agreement.py for the meanings."""

    because: Literal[
        "exploratory", "undecided", "both within", "equivalent", "contains both", "inside", "outside", "opposite"
    ]
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
