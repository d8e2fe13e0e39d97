"""Interim analyses of a sequential study: after how many blocks effects may be examined, and at which error rate each
time. Files and variables call one a look.

A group-sequential design. One analysis is aimed for: it falls where the study's time ends, after any number of blocks,
and has most of the error rate. Others at fixed numbers of blocks before it, which only clear effects pass, and after
it, for blocks that are added, have little each. The chance of a false difference over all of them is at most the
study's error rate, 5 % if it sets no other (verdict.error_rate). The rates sum to more, as the analyses share their
blocks: they are such that t tests of independent normal blocks, each with its own estimate of the noise, stay below it
together (simulated; Lan and DeMets, Biometrika 70 (1983)). Between them only the precision may be shown, never an
effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TOTAL = 0.05
"""The error rate of all interim analyses together, unless the experiment sets another."""
_SMALL = {6: 0.004, 10: 0.004, 16: 0.004, 26: 0.005, 40: 0.00575}
"""Blocks → error rate of an analysis that is not the one aimed for, of TOTAL."""
INTERIM_BLOCKS = tuple(_SMALL)
_AIMED, _AIMED_OF_SMALL = 0.036, 0.03
"""Error rate of the analysis aimed for, of TOTAL; and where the study's is smaller, as analyses then share less."""
EARLY = 4
"""Fewest blocks of the analysis that is aimed for. Clear effects pass it; equivalence needs six."""


@dataclass(frozen=True, slots=True)
class InterimAnalyses:
    """Those of one study: blocks → error rate, ascending."""

    rates: Mapping[int, float]

    def alpha_at(self, blocks: int) -> float | None:
        """The error rate of the analysis at exactly this number of blocks; None if none is due."""
        return self.rates.get(blocks)

    def next_after(self, blocks: int) -> int | None:
        """The blocks of the first analysis after this number of blocks; None after the last one."""
        return next((look for look in self.rates if look > blocks), None)

    def latest(self, blocks: int) -> int | None:
        """The blocks of the latest analysis that this number of blocks has reached; None before the first one."""
        return max((look for look in self.rates if look <= blocks), default=None)

    @property
    def first(self) -> int:
        """The blocks of the first analysis."""
        return min(self.rates)

    @property
    def last(self) -> int:
        """The blocks of the last analysis."""
        return max(self.rates)

    @property
    def aim(self) -> int:
        """The blocks of the analysis that is aimed for."""
        return max(self.rates, key=self.rates.__getitem__)


def interim_aimed_at(blocks: int, total: float = TOTAL) -> InterimAnalyses:
    """Those of a study whose time allows so many blocks: at least EARLY, at most the last analysis's are aimed for.

    `total` is the error rate of all together: each has the same share of it as of TOTAL.

    The rates before the aim are the same for every aim. So until the analysis aimed for was made, another one after
    those made can be aimed for instead, if no effect plays a part in that choice.
    """
    aim = min(max(blocks, EARLY), INTERIM_BLOCKS[-1])
    rates = sorted({**_SMALL, aim: _AIMED if total >= TOTAL else _AIMED_OF_SMALL}.items())
    return InterimAnalyses({look: round(rate * (total / TOTAL), 8) for look, rate in rates})


SIX = interim_aimed_at(6)
"""Those of studies whose plan does not state them."""
