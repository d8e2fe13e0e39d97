"""Transactions that are longer than a slice: found in the first block, before a study spends its time on nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import ceil

from mydyno.errors import HostError, ServerError
from mydyno.model.definition.experiment import DesignSpec, Step
from mydyno.model.definition.quantities import format_duration
from mydyno.servers.running.base import LOAD_USER, RunningServer

ENOUGH = 10
"""Transactions that should end in a slice."""
GROWTH = 4
LONGEST_S = 64.0
"""The longest slice that is tried."""
LONGEST_TEXT = 300


def may_be_empty(step: Step, slice_s: float) -> bool:
    """Whether a slice without a transaction is what the step asks for: a rate so low, or one that is searched."""
    return step.search is not None or (step.rate is not None and step.rate * slice_s < ENOUGH)


async def slice_too_short(
    step: Step, design: DesignSpec, load: Callable[[float], Awaitable[int]], instance: RunningServer
) -> HostError:
    """The error that ends a study of which no transaction of the control ended within a slice of this length.

    `load` loads the control for so many seconds and returns how many transactions ended. The longest statement is what
    the server executes when a slice has ended.
    """
    statement = await _longest_statement(instance)
    running = f"; the server was executing: {statement}" if statement else ""
    length_s = design.slice
    while length_s < LONGEST_S:
        length_s *= GROWTH
        ended = await load(length_s)
        if ended:
            needed = f"{ceil(ENOUGH * length_s / ended)}s"
            return HostError(
                f"load level {step.id}: no transaction of the control ended within a slice of "
                f"{format_duration(design.slice)}, {ended} ended in {format_duration(length_s)}{running}",
                f"use --set design.slice={needed}, in which about {ENOUGH} end{_room(design)}; a statement that should "
                "be faster may lack an index",
            )
    return HostError(
        f"load level {step.id}: no transaction of the control ended within {format_duration(length_s)}{running}",
        "shorten the transactions, or look for a missing index or a lock that is never released",
    )


def _room(design: DesignSpec) -> str:
    """What else longer slices need, by what sets the length of this study."""
    if design.time is not None:
        return ", with a longer design.time"
    return "" if design.cycles is not None else ", with a longer steps.measure"


async def _longest_statement(instance: RunningServer) -> str:
    if not instance.has_sql:
        return ""
    with suppress(ServerError):
        async with instance.control() as control:
            rows = await control.rows(
                "SELECT INFO FROM information_schema.PROCESSLIST WHERE USER = %s AND INFO IS NOT NULL "
                "ORDER BY TIME DESC LIMIT 1",
                LOAD_USER,
            )
        text = " ".join(str(rows[0][0]).split()) if rows else ""
        return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} …"
    return ""
