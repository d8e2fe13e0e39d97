"""Active sessions and InnoDB's counters in words: names, numbers, differences, intervals."""

from __future__ import annotations

from mydyno.language import marked, tr
from mydyno.model.stored.waits import AmountRecord
from mydyno.wording.numbers import count_interval, signed_count, significant

KINDS = {"active": marked("all"), "state": marked("state"), "wait": marked("wait")}


def name_text(one: AmountRecord) -> str:
    """What is counted, in the present language where it is mydyno's own word."""
    if one.kind == "active":
        return tr("active sessions")
    if one.kind == "wait":
        return tr(one.name) if one.name else tr("in no wait event")
    if one.kind == "state":
        return one.name or tr("in no state")
    return one.name


def long_name(one: AmountRecord) -> str:
    """The same where no column has its kind."""
    if one.kind == "active":
        return tr("active sessions (mean number)")
    return tr("active sessions: {what}", what=name_text(one))


def number_text(value: float) -> str:
    """A mean number of sessions, or a count per transaction."""
    return "0" if value == 0.0 else significant(value, 3)


def difference_text(one: AmountRecord) -> str:
    """The difference with its sign."""
    return signed_count(one.arm - one.control)


def interval_text(one: AmountRecord) -> str:
    """The interval of the difference."""
    return count_interval(one.low, one.high)
