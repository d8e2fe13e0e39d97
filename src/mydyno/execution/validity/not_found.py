"""Rows or keys that are not there: a load that finds nothing does less work than the one that was to be measured.

The data of `oltp_*`, `kv_*` and sysbench's loads are mydyno's own, so that every statement and get must find something,
except for the share that `options.hit_ratio` leaves out. The rows of your own SQL are yours: this check fails where
none of its reads found any row. An experiment on evictions allows misses by `validity.not_found`, up to 100%.
"""

from __future__ import annotations

from collections.abc import Mapping

from mydyno.execution.validity.facts import StepFacts
from mydyno.model.definition.experiment import Step
from mydyno.model.stored.reasons import Reason
from mydyno.results.values.found import missed


def closed(facts: StepFacts) -> Reason | None:
    """Fails where a larger share than validity.not_found was looked for in vain."""
    if facts.step is None:
        return None
    return not_found(facts.step, facts.driver.whole, facts.bounds.not_found)


def not_found(step: Step, whole: Mapping[str, int], bound: float) -> Reason | None:
    """The reason for a step that found less than it should; None where it did."""
    share, words = missed(step, whole)
    if share <= bound:
        return None
    return Reason(gate="not_found", text=f"{words} (bound {bound:.0%})")
