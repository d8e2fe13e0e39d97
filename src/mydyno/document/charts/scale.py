"""Scales: values to pixels, and ticks at round numbers (after Heckbert, "Nice Numbers for Graph Labels", 1990)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Linear:
    """Values low..high to pixels start..end; equal bounds are drawn in the middle."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value; values outside the bounds fall outside the pixels."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def clamp(self, value: float) -> float:
        """As calling it, but never outside the pixels."""
        return self(min(max(value, self.low), self.high))


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers that enclose low..high (the first is <= low, the last >= high)."""
    if high <= low:
        spread = abs(low) * 0.1 or 1.0
        low, high = low - spread, high + spread
    raw = (high - low) / max(1, count - 1)
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10, 20) if factor * magnitude >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def value_ticks(values: Sequence[float], count: int = 5, from_zero: bool = False) -> list[float]:
    """Ticks for measured values >= 0: from zero where that costs less than half of the height, or if asked."""
    low, high = min(values), max(values)
    if low == high == 0:
        return [0.0, 1.0]
    if from_zero or 0 <= low < 0.55 * high:
        low = min(0.0, low)
    elif high - low < abs(high) * 0.02:  # a flat line must not look like an adventure
        middle = (high + low) / 2
        low, high = middle - abs(high) * 0.01, middle + abs(high) * 0.01
    return nice_ticks(low, high, count)


def level_positions(levels: Sequence[float], start: float, end: float) -> dict[float, float]:
    """Pixels of connection counts, or rates, on a logarithmic scale; a single one stands in the middle."""
    logs = {level: math.log2(max(level, 1)) for level in sorted(set(levels))}
    scale = Linear(min(logs.values()), max(logs.values()), start, end)
    return {level: scale(log) for level, log in logs.items()}


def tick_decimals(ticks: Sequence[float]) -> int:
    """The number of decimals that distinguishes the ticks."""
    steps = [abs(b - a) for a, b in pairwise(ticks)] or [abs(ticks[0]) or 1.0]
    step = min(steps)
    for decimals in range(7):
        if abs(round(step, decimals) - step) < step * 1e-6:
            return decimals
    return 6
