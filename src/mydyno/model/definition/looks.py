"""The looks of a sequential study: after how many blocks effects may be examined, and at which error rate each time.

A group-sequential design. One look is aimed for: it falls where the study's time ends, after any number of blocks, and
has most of the error rate. Looks at fixed numbers of blocks before it, which only clear effects pass, and after it, for
blocks that are added, have little each. The chance of a false difference over all looks is at most the study's error
rate, 5 % if it sets no other (verdict.error_rate). The rates sum to more, as looks share their blocks: they are such
that t tests of independent normal blocks, each with its own estimate of the noise, stay below it together (simulated;
Lan and DeMets, Biometrika 70 (1983)). Between looks only the precision may be shown, never an effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TOTAL = 0.05
"""The error rate of all looks together, unless the experiment sets another."""
_SMALL = {6: 0.004, 10: 0.004, 16: 0.004, 26: 0.005, 40: 0.00575}
"""Blocks → error rate of a look that is not the one aimed for, of TOTAL."""
LOOK_BLOCKS = tuple(_SMALL)
_AIMED, _AIMED_OF_SMALL = 0.036, 0.03
"""Error rate of the look aimed for, of TOTAL; and where the study's error rate is smaller, as looks then share less."""
EARLY = 4
"""Fewest blocks of the look that is aimed for. Clear effects pass it; equivalence needs six."""


@dataclass(frozen=True, slots=True)
class Looks:
    """The looks of one study: blocks → error rate, ascending."""

    rates: Mapping[int, float]

    def alpha_at(self, blocks: int) -> float | None:
        """The error rate of the look at exactly this number of blocks; None if no look is due."""
        return self.rates.get(blocks)

    def next_after(self, blocks: int) -> int | None:
        """The blocks of the first look after this number of blocks; None after the last one."""
        return next((look for look in self.rates if look > blocks), None)

    def latest(self, blocks: int) -> int | None:
        """The blocks of the latest look that this number of blocks has reached; None before the first one."""
        return max((look for look in self.rates if look <= blocks), default=None)

    @property
    def first(self) -> int:
        """The blocks of the first look."""
        return min(self.rates)

    @property
    def last(self) -> int:
        """The blocks of the last look."""
        return max(self.rates)

    @property
    def aim(self) -> int:
        """The blocks of the look that is aimed for."""
        return max(self.rates, key=self.rates.__getitem__)


def looks_aimed_at(blocks: int, total: float = TOTAL) -> Looks:
    """The looks of a study whose time allows so many blocks: at least EARLY, at most the last look's are aimed for.

    `total` is the error rate of all looks together: each has the same share of it as of TOTAL.

    The rates of looks before the aim are the same for every aim. So until the look aimed for was examined, another one
    after those examined can be aimed for instead, if no effect plays a part in that choice.
    """
    aim = min(max(blocks, EARLY), LOOK_BLOCKS[-1])
    rates = sorted({**_SMALL, aim: _AIMED if total >= TOTAL else _AIMED_OF_SMALL}.items())
    return Looks({look: round(rate * (total / TOTAL), 8) for look, rate in rates})


SIX = looks_aimed_at(6)
"""The looks of studies whose plan does not state them."""
