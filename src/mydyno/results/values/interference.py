"""Whether servers of a block affect each other: carry-over between slices, deferred work, the control loaded alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np

from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.reasons import Fact, fact
from mydyno.model.stored.records import SliceRecord
from mydyno.model.stored.summary import AloneRecord
from mydyno.results.values.step_slices import StepSlices, groups_of, lane_of
from mydyno.stats.slices import adjusted_work, carry_over, demeaned


def longest_washout_s(experiment: Experiment, slices: Sequence[SliceRecord]) -> float:
    """The washout of the latest blocks: it is only ever lengthened."""
    return max([experiment.design.washout, *(one.washout_s for one in slices if one.washout_s is not None)])


def carried_over(
    steps: Mapping[str, StepSlices], coefficients: Mapping[str, dict[str, dict[str, float]]], washout_s: float
) -> dict[str, float]:
    """step → largest relative change of a slice's throughput by the arm that was loaded before it, where it is shown.

    Only slices with a washout of at least `washout_s` are used; steps without a change beyond noise are absent.
    """
    found = {}
    for step, data in steps.items():
        rows = [index for index, one in enumerate(data.slices) if (one.washout_s or washout_s) >= washout_s]
        slices = [data.slices[index] for index in rows]
        work = np.array([one.done_queries / one.length_s for one in slices])
        if not rows or not (work > 0).all():
            continue
        slopes_of = coefficients.get(step, {}).get("qps", {})
        x = (
            np.column_stack([data.covariates[name][rows] for name in slopes_of])
            if slopes_of
            else np.zeros((len(work), 0))
        )
        beta = np.array(list(slopes_of.values()))
        residuals = demeaned(np.log(adjusted_work(work, x, beta, np.zeros(len(beta)))), groups_of(slices))
        second = np.array([one.position > 1 for one in slices])
        effect = carry_over(residuals, np.where(second, data.before[rows, 0], ""))
        if effect is not None:
            found[step] = effect
    return found


def _washout_notes(slices: Sequence[SliceRecord]) -> list[Fact]:
    """Where the washout was lengthened between blocks."""
    first: dict[float, int] = {}
    for one in slices:
        if one.washout_s is not None:
            first[one.washout_s] = min(one.block, first.get(one.washout_s, one.block))
    found = sorted(first.items(), key=lambda item: item[1])
    return [fact("longer washout", block=block, washout_s=washout_s) for washout_s, block in found[1:]]


LONGER = 4
"""Times what a transaction takes: the slice that is proposed."""


def _response_notes(slices: Sequence[SliceRecord]) -> list[Fact]:
    """Steps at which a transaction takes longer than a slice: most of it is done while others have ended."""
    times: dict[str, list[float]] = {}
    lengths_s: dict[str, float] = {}
    for one in slices:
        if one.search is None and one.service_us:
            times.setdefault(one.step, []).append(one.service_us / 1e6)
            lengths_s.setdefault(one.step, one.length_s)
    means = {step: float(np.mean(found)) for step, found in times.items()}
    return [
        fact("slow responses", step=step, took_s=mean, slice_s=lengths_s[step], longer_slice_s=ceil(LONGER * mean))
        for step, mean in means.items()
        if mean > lengths_s[step]
    ]


FEWEST_ALONE = 4


def alone_record(alone: Sequence[SliceRecord], steps: Mapping[str, StepSlices]) -> AloneRecord | None:
    """The control's slices with the other servers stopped, relative to the same server's slices just before.

    Not adjusted: while the others are stopped there are no slices of other arms that show the host's speed. Its drift
    in between is not known either, so there is no interval.
    """
    usable = [one for one in alone if one.queries > 0]
    if len(usable) < FEWEST_ALONE or usable[0].step not in steps:
        return None
    step = usable[0].step
    together = [one for one in steps[step].slices if lane_of(one) == lane_of(usable[0]) and one.queries]
    if len(together) < 2:
        return None
    apart, beside = (np.log([one.done_queries / one.length_s for one in of]) for of in (usable, together))
    return AloneRecord(step=step, slices=len(usable), qps_ratio=float(np.exp(apart.mean() - beside.mean())))


STRETCHED = 2.0
"""A slice that lasted so many times the median of its step was interrupted: the host was suspended, or the study
stopped. Its rates and its host's readings are of the interruption."""


def stretched_cycles(slices: Sequence[SliceRecord]) -> set[tuple[int, int]]:
    """(block, cycle) of one step's slices that were interrupted; by their length alone, whatever they measured."""
    lengths = [one.length_s for one in slices if not one.failed]
    longest_s = STRETCHED * float(np.median(lengths)) if lengths else 0.0
    return {(one.block, one.cycle) for one in slices if one.length_s > longest_s and not one.failed}


def _interruption_notes(slices: Sequence[SliceRecord]) -> list[Fact]:
    """Steps with cycles that were dropped as interrupted, and lanes whose server answered nothing for whole slices."""
    found = []
    by_step: dict[str, list[SliceRecord]] = {}
    for one in slices:
        if one.search is None and not one.failed:
            by_step.setdefault(one.step, []).append(one)
    for step, own in by_step.items():
        if cycles := len(stretched_cycles(own)):
            longest_s = max(one.length_s for one in own)
            found.append(fact("interrupted", step=step, cycles=cycles, longest_s=longest_s))
        arms = {one.arm for one in own}
        for arm in sorted(arms):
            counts = [one.transactions for one in own if one.arm == arm]
            if silent := counts.count(0) if np.median(counts) >= NO_CHANCE else 0:
                found.append(fact("silent", step=step, arm=arm, slices=silent, all_slices=len(counts)))
    return found


NO_CHANCE = 20
"""Median number of transactions in a slice from which on a slice without any is not chance."""
IDLE_WORK = 0.10
"""CPUs used by servers that are not loaded, above which the report says so."""


def _idle_work_notes(slices: Sequence[SliceRecord]) -> list[Fact]:
    """Whether servers that were not loaded used more than IDLE_WORK CPUs on average."""
    shares = [o.idle_servers_cpu_s / o.length_s for o in slices if o.idle_servers_cpu_s is not None and o.length_s]
    if not shares or float(np.mean(shares)) <= IDLE_WORK:
        return []
    return [fact("idle work", used_cpus=float(np.mean(shares)))]


def interference_notes(slices: Sequence[SliceRecord]) -> list[Fact]:
    """How the servers of a block affected each other, beside what the record has in fields of its own."""
    return [
        *_washout_notes(slices),
        *_response_notes(slices),
        *_interruption_notes(slices),
        *_idle_work_notes(slices),
    ]
