"""Whether a laboratory's own A/A contrasts are significant as often as they should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats


@dataclass(frozen=True, slots=True)
class Calibration:
    """How often this laboratory's A/A contrasts came out significant at `alpha`, with the exact binomial 95 % interval.

    `alarm` needs at least 60 contrasts and an interval that does not contain `alpha`.
    """

    contrasts: int
    significant: int
    rate: float | None
    low: float | None
    high: float | None
    alarm: bool


def calibration(p_values: Sequence[float], alpha: float = 0.05, fewest: int = 60) -> Calibration:
    """The calibration of a laboratory from all the A/A p values it kept (Clopper and Pearson, Biometrika 26 (1934))."""
    count = len(p_values)
    if count == 0:
        return Calibration(0, 0, None, None, None, False)
    significant = sum(p <= alpha for p in p_values)
    interval = stats.binomtest(significant, count).proportion_ci(0.95)
    low, high = float(interval.low), float(interval.high)
    return Calibration(count, significant, significant / count, low, high, count >= fewest and not low <= alpha <= high)
