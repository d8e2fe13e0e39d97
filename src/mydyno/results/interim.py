"""The interim analysis that is due, and the blocks that it examines."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.plan import Plan
from mydyno.model.stored.records import RunRecord


def interim_analysis_of(plan: Plan, runs: Sequence[RunRecord], experiment: Experiment) -> tuple[int | None, float]:
    """(blocks of the analysis that is due, its error rate): the latest one reached, or None and the study's rate."""
    look = None if plan.schedule is None else plan.schedule.latest(len({run.block for run in runs}))
    rates = {} if plan.schedule is None else plan.schedule.rates
    return look, experiment.verdict.error_rate if look is None else rates[look]


def first_finished(runs: Sequence[RunRecord], look: int | None) -> set[int]:
    """The blocks of an interim analysis: as many as finished first, all if there is none.

    On several host groups blocks do not finish in the order of their numbers. A block that is made later must not
    change what an earlier analysis examined.
    """
    ended: dict[int, int] = {}
    for run in runs:
        ended[run.block] = max(run.ended_unix_ns, ended.get(run.block, 0))
    return set(sorted(ended, key=lambda block: (ended[block], block))[:look])
