"""A level of load in words, for every table, chart and sentence."""

from __future__ import annotations

from mydyno.language import agreed


def load_level(connections: int, rate: float | None = None) -> str:
    """E.g. "1 connection", "32 connections"; in an open loop "5,000 transactions/s on 32 connections".

    `rate` is in transactions a second; None: a closed loop.
    """
    closed = agreed(f"{connections} connections")
    return closed if rate is None else f"{rate:,.10g} transactions/s on {closed}"
