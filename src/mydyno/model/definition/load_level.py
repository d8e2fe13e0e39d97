"""A level of load in words, for every table, chart and sentence."""

from __future__ import annotations

from mydyno.language import tr, tr_plural


def load_level(connections: int, rate: float | None = None) -> str:
    """E.g. "1 connection", "32 connections"; in an open loop "5,000 transactions/s on 32 connections".

    `rate` is in transactions a second; None: a closed loop.
    """
    closed = tr_plural("{count} connection", "{count} connections", connections)
    return closed if rate is None else tr("{rate} transactions/s on {closed}", rate=f"{rate:,.10g}", closed=closed)
