"""The looks of a sequential study: after how many blocks effects may be examined, and at which error rate each time.

A group-sequential design with fixed numbers of blocks. One look is aimed for: the one that the study's time allows. It
has most of the error rate. Looks before it, which only clear effects pass, and those after it, for blocks that are
added, have little each. The rates sum to the study's error rate, 5 % if it sets no other (verdict.error_rate), so the
chance of a false difference over all looks is at most that whatever the noise (Bonferroni). Between looks only the
precision may be shown, never an effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TOTAL = 0.05
"""The error rate of all looks together, unless the experiment sets another."""
_SMALL = {6: 0.004, 10: 0.004, 16: 0.004, 26: 0.005, 40: 0.00575}
"""Blocks → error rate of a look that is not the one aimed for, of TOTAL."""
LOOK_BLOCKS = tuple(_SMALL)
EARLY = 4
"""Blocks of the look that is aimed for where the time allows no six: clear effects pass it, equivalence needs six.
Other studies have no look there."""


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
    def total(self) -> float:
        """The error rate of all looks together."""
        return sum(self.rates.values())

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
    """The looks of a study whose time allows so many blocks: the first look with that many, or the last, is aimed for.

    `total` is the error rate of all looks together: each has the same share of it as of TOTAL.

    The rates of looks before the aim are the same for every aim. So until the look aimed for was examined, another one
    after those examined can be aimed for instead, if no effect plays a part in that choice.
    """
    aim = EARLY if blocks == EARLY else next((look for look in _SMALL if look >= blocks), LOOK_BLOCKS[-1])
    others = {look: rate for look, rate in _SMALL.items() if look != aim}
    rates = sorted({aim: TOTAL - sum(others.values()), **others}.items())
    return Looks({look: round(rate * (total / TOTAL), 8) for look, rate in rates})


SIX = looks_aimed_at(6)
"""The looks of studies whose plan does not state them."""
