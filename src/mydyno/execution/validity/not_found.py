"""Rows or keys that are not there: a load that finds nothing does less work than the one that was to be measured.

The data of `oltp_*`, `kv_*` and sysbench's loads are mydyno's own, so that every statement and get must find something,
except for the share that `options.hit_ratio` leaves out. The rows of your own SQL are yours: this gate closes where
none of its reads found any row. An experiment on evictions allows misses by `validity.not_found`, up to 100%.
"""

from __future__ import annotations

from collections.abc import Mapping

from mydyno.execution.validity.facts import StepFacts
from mydyno.model.definition.experiment import Step
from mydyno.model.stored.reasons import Reason


def closed(facts: StepFacts) -> Reason | None:
    """Closed where a larger share than validity.not_found was looked for in vain."""
    if facts.step is None:
        return None
    return not_found(facts.step, facts.driver.whole, facts.bounds.not_found)


def not_found(step: Step, whole: Mapping[str, int], bound: float) -> Reason | None:
    """The reason for a step that found less than it should; None where it did."""
    share, words = missed(step, whole)
    if share <= bound:
        return None
    return Reason(gate="not_found", text=f"{words} (bound {bound:.0%})")


def missed(step: Step, whole: Mapping[str, int]) -> tuple[float, str]:
    """The share that was looked for in vain, beyond the one that was ordered, and what it is of."""
    if gets := whole.get("cmd_get", 0):
        misses = whole.get("get_misses", 0)
        ordered = str(step.options.get("hit_ratio", "100%"))
        unexpected = misses / gets - (1 - float(ordered.removesuffix("%")) / 100)
        return unexpected, f"{misses} of {gets} gets ({misses / gets:.1%}) found no key"
    missing = whole.get("missing_rows", 0)
    if missing:
        statements = max(1, whole.get("read", 0) + whole.get("write", 0) + whole.get("unchanged", 0))
        words = f"{missing} of {statements} statements ({missing / statements:.1%}) found no row that the data have"
        return missing / statements, words
    empty, reads = whole.get("empty_reads", 0), whole.get("read", 0)
    return (1.0, f"none of the {reads} reads found a row") if empty and empty == reads else (0.0, "")
