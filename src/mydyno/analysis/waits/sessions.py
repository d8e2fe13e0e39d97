"""Active sessions and InnoDB's counters in words: names, numbers, differences, intervals."""

from __future__ import annotations

from mydyno.model.stored.waits import AmountRecord
from mydyno.wording.numbers import count_interval, signed_count, significant

KINDS = {"active": "all", "state": "state", "wait": "wait"}


def name_text(one: AmountRecord) -> str:
    """What is counted, in the present language where it is mydyno's own word."""
    if one.kind == "active":
        return "active sessions"
    if one.kind == "wait":
        return one.name if one.name else "in no wait event"
    if one.kind == "state":
        return one.name or "in no state"
    return one.name


def long_name(one: AmountRecord) -> str:
    """The same where no column has its kind."""
    if one.kind == "active":
        return "active sessions (mean number)"
    return f"active sessions: {name_text(one)}"


def number_text(value: float) -> str:
    """A mean number of sessions, or a count per transaction."""
    return "0" if value == 0.0 else significant(value, 3)


def difference_text(one: AmountRecord) -> str:
    """The difference with its sign."""
    return signed_count(one.arm - one.control)


def interval_text(one: AmountRecord) -> str:
    """The interval of the difference."""
    return count_interval(one.low, one.high)
