"""What the servers' threads wait for per transaction, and which waits differ between an arm and its control.

Events are compared as in results/why/event_tables.py. The sum of each class of waits is compared like an event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mydyno.analysis.base import Examined
from mydyno.analysis.waits.amounts import (
    Amounts,
    amount_records,
    compared,
    metric_amounts,
    metric_records,
    session_amounts,
    session_records,
)
from mydyno.analysis.waits.counted_waits import CountedRun, counted_runs, event
from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.obstacles import CopiesDiffer
from mydyno.model.stored.waits import AmountRecord, LockInstances, WaitRecord, WaitsContrast, WaitsRecord
from mydyno.results.why.event_tables import COPY, Compared, EventTable, sides, table_of
from mydyno.results.why.event_tables import compared as compared_events
from mydyno.results.why.slices_apart import slices_apart
from mydyno.stats.sampled import Difference, SampledContrast, differences
from mydyno.store.slices import WAITS_FILE

LEAST_SHARE = 0.002
"""Least share of a transaction's time, of arm and control together: events with less are not compared."""
MOST_EVENTS = 60
"""Most events of a contrast in summary.json."""


Locks = Mapping[tuple[str, str], LockInstances]
"""{(lock, arm): its instances}, of all runs of the arm."""


@dataclass(frozen=True)
class _Contrasts:
    """The contrasts between one arm and its control at one step."""

    events: SampledContrast
    sessions: SampledContrast | None
    metrics: SampledContrast | None


@dataclass(frozen=True)
class _Step:
    """The tables of one step."""

    events: EventTable
    locks: Locks
    sessions: Amounts
    metrics: Amounts

    def contrasts(self, arm: str, control: str) -> _Contrasts | None:
        """None without both sides."""
        events = compared_events(self.events, arm, control, _enough)
        if events is None:
            return None
        return _Contrasts(events, compared(self.sessions, arm, control), compared(self.metrics, arm, control))

    def copy_as_arm(self, control: str, name: str) -> _Step:
        """With the control's second copy as an arm of this name."""
        return _Step(
            self.events.copy_as_arm(control, name),
            self.locks,
            self.sessions.copy_as_arm(control, name),
            self.metrics.copy_as_arm(control, name),
        )


@dataclass(frozen=True)
class _Claims:
    """Whether differences may be claimed."""

    waits: bool
    metrics: bool


def analyse(study: Examined) -> WaitsRecord | None:
    """The waits of a study; None where they were not asked for."""
    experiment, runs, alpha = study.experiment, study.records, study.alpha_of_causes
    facts = [one for run in runs for one in run.waits]
    if not facts:
        return None
    counted = counted_runs(study.path, experiment, runs, study.runs)
    steps = {
        step: _Step(table_of(of_step), _locks(of_step), session_amounts(of_step), metric_amounts(of_step))
        for step, of_step in counted.items()
    }
    pairs = [(arm, control) for control, arms in experiment.contrasts().items() for arm in arms]
    compared_steps = [
        (name, contrasts)
        for name, step in steps.items()
        for arm, control in pairs
        if (contrasts := step.contrasts(arm, control)) is not None
    ]
    seed, level = experiment.design.seed, alpha or 0.05
    found = _differences([one for _, of in compared_steps for one in (of.events, of.sessions)], level, seed)
    found |= _differences([of.metrics for _, of in compared_steps], level, seed)
    alarm = _alarm(experiment, steps, level)
    claims = _Claims(
        alpha is not None and not alarm, alpha is not None and not _metrics_alarm(experiment, steps, level)
    )
    return WaitsRecord(
        contrasts=tuple(_contrast(name, steps[name], of, found, claims) for name, of in compared_steps),
        **dict(slices_apart(facts, study.slices, study.apart[WAITS_FILE], alarm)),
        samples=sum(run.totals.samples for of_step in counted.values() for run in of_step),
        lost=_most_lost([run.totals.lost for of_step in counted.values() for run in of_step]),
    )


def _differences(contrasts: Sequence[SampledContrast | None], alpha: float, seed: int) -> dict[int, list[Difference]]:
    """{id of a contrast: its differences}, whose intervals are simultaneous."""
    having = [one for one in contrasts if one is not None]
    return {id(one): of for one, of in zip(having, differences(having, alpha, seed), strict=True)}


def _most_lost(runs: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: max(run.get(name, 0) for run in runs) for name in names}


def _locks(counted: Sequence[CountedRun]) -> Locks:
    """{(lock, arm): its instances}: the most of any run, and the share of the hottest ones in the time of all runs."""
    found: dict[tuple[str, str], tuple[int, float, float]] = {}
    for run in counted:
        for one in run.totals.locks:
            most, time_us, hottest_us = found.get((one.name, run.server.arm), (0, 0.0, 0.0))
            found[one.name, run.server.arm] = (
                max(most, one.instances),
                time_us + one.time_us,
                hottest_us + one.hottest_us,
            )
    return {
        key: LockInstances(instances=most, hottest=round(hottest_us / time_us, 4))
        for key, (most, time_us, hottest_us) in found.items()
        if time_us > 0.0
    }


def _enough(table: EventTable, connection_us: float) -> NDArray[np.float64]:
    return np.full(len(table.items), LEAST_SHARE * connection_us)


def _copies(experiment: Experiment, steps: Mapping[str, _Step]) -> list[tuple[str, _Step, _Contrasts]]:
    """The control's second copy against the first, at each step where both were counted."""
    copies = {name: step.copy_as_arm(experiment.control, COPY) for name, step in steps.items()}
    found = [(name, step, step.contrasts(COPY, experiment.control)) for name, step in copies.items()]
    return [(name, step, of) for name, step, of in found if of is not None]


def _alarm(experiment: Experiment, steps: Mapping[str, _Step], alpha: float) -> CopiesDiffer | None:
    """An event, or what sessions do, that differs between the control's two copies."""
    copies = _copies(experiment, steps)
    found = _differences([one for *_, of in copies for one in (of.events, of.sessions)], alpha, 1)
    for name, step, of in copies:
        named: list[tuple[SampledContrast, Literal["event", "sessions"], list[str]]]
        named = [(of.events, "event", [event(item)[1] for item in step.events.items])]
        if of.sessions is not None:
            named.append((of.sessions, "sessions", [state or kind for kind, state in step.sessions.items]))
        for contrast, kind, names in named:
            for item, one in zip(contrast.items, found[id(contrast)], strict=True):
                if one.excludes_no_change:
                    return CopiesDiffer(control=experiment.control, step=name, kind=kind, of=names[item])
    return None


def _metrics_alarm(experiment: Experiment, steps: Mapping[str, _Step], alpha: float) -> bool:
    """Whether a counter of InnoDB differs between the control's two copies."""
    found = _differences([of.metrics for *_, of in _copies(experiment, steps)], alpha, 1)
    return any(one.excludes_no_change for of in found.values() for one in of)


def _contrast(
    name: str, step: _Step, contrasts: _Contrasts, found: Mapping[int, Sequence[Difference]], claims: _Claims
) -> WaitsContrast:
    events = contrasts.events
    both = sides(events, step.events, found[id(events)], claims.waits)

    def amounts(of: Amounts, contrast: SampledContrast | None, may_claim: bool) -> list[AmountRecord]:
        return [] if contrast is None else amount_records(of, contrast, found[id(contrast)], may_claim)

    metrics = amounts(step.metrics, contrasts.metrics, claims.metrics)
    return WaitsContrast(
        step=name,
        arm=events.arm,
        control=events.control,
        blocks=both.blocks,
        control_us=both.control_us,
        arm_us=both.arm_us,
        events=_event_records(both.items, step.locks, events.arm, events.control),
        sessions=session_records(amounts(step.sessions, contrasts.sessions, claims.waits)),
        metrics=metric_records(metrics),
        metrics_compared=len(metrics),
    )


def _event_records(items: Sequence[Compared], locks: Locks, arm: str, control: str) -> tuple[WaitRecord, ...]:
    events = []
    for one in items:
        kind, name, of_class = event(one.item)
        events.append(
            WaitRecord(
                kind=kind,
                name=name,
                of_class=of_class,
                control_us=one.control,
                arm_us=one.arm,
                control_count=one.control_count,
                arm_count=one.arm_count,
                low_us=one.low,
                high_us=one.high,
                beyond_noise=one.beyond_noise,
                control_lock=locks.get((name, control)),
                arm_lock=locks.get((name, arm)),
            )
        )
    events.sort(
        key=lambda one: (
            not one.beyond_noise,
            -(abs(one.arm_us - one.control_us) if one.beyond_noise else max(one.arm_us, one.control_us)),
        )
    )
    return tuple(events[:MOST_EVENTS])
