"""Numbers in clauses and sentences that are English everywhere."""

from __future__ import annotations


def percent(fraction: float) -> str:
    """The size of a fraction as a percentage: one decimal, none from 100 % on, two below 0.1 %."""
    size = abs(fraction) * 100.0
    return f"{size:.{0 if size >= 100.0 else 1 if size >= 0.095 or size < 0.005 else 2}f} %"


def blocks(count: int) -> str:
    """1 block, 2 blocks."""
    return f"{count} block" if count == 1 else f"{count} blocks"


def p_value(p: float) -> str:
    """A p value of two significant digits, never 0."""
    return f"{p:.2g}" if p >= 0.0001 else "below 0.0001"
