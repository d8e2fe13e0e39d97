"""What the factors of a study do, as summary.json has it. Frozen; no I/O."""

from __future__ import annotations

from typing import Literal

from mydyno.model.frozen_record import Record


class FactorLevels(Record):
    """One factor: a setting in which the arms differ."""

    name: str
    levels: tuple[str, ...]
    base: str
    """The control's level, which the others are compared with."""
    values: tuple[float, ...] = ()
    """The levels of a quantitative factor as numbers above 0, from what the treatments set; empty for others."""
    unit: Literal["", "bit/s", "bytes"] = ""
    unreached: tuple[str, ...] = ()
    """Levels that this host did not reach in every run: they bound no change of sign."""


class FactorEffect(Record):
    """What a level of a factor does against the factor's base level, as a ratio.

    "main": the mean over all combinations of the other factors. "at": the mean over those with one level of another
    factor. "interaction": the ratio of the effect at that level to the one at the other factor's base level.
    """

    kind: Literal["main", "at", "interaction"]
    metric: str
    step: str
    factor: str
    level: str
    other: str = ""
    at: str = ""
    """The level of `other`; empty for a main effect."""
    n: int
    """Blocks that have all of its arms."""
    ratio: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    """Simultaneous over all of these effects of the study."""
    decided: bool = False
    """Whether the interval excludes 1, the effect exceeds the difference of the control's copies, and they agree."""


class FactorCrossing(Record):
    """Where the effect of a level changes its sign between two measured levels of a quantitative factor."""

    metric: str
    step: str
    factor: str
    level: str
    other: str
    """The quantitative factor."""
    low_level: str
    high_level: str
    """Its two levels, by their values, at which the effect is decided and has opposite signs."""
    value: float
    """Interpolated over the logarithm of the level, in its unit."""
    ci_low: float
    ci_high: float
    """Fieller's interval at the level of the simultaneous intervals: of the noise, not of the interpolation."""


class FactorsRecord(Record):
    """The factors whose full product the arms are, and what they do to the metrics with verdicts."""

    factors: tuple[FactorLevels, ...]
    effects: tuple[FactorEffect, ...] = ()
    crossings: tuple[FactorCrossing, ...] = ()

    def factor(self, name: str) -> FactorLevels:
        """The factor of this name. Raises StopIteration."""
        return next(one for one in self.factors if one.name == name)
