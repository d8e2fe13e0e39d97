"""The kernel's events of the servers per transaction, and which differ between an arm and its control.

They are compared as in results/why/event_tables.py: what has a duration by its time, the rest by its count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.kernel import (
    MEASURES,
    SYSTEM_CALL,
    Bucket,
    KernelContrast,
    KernelRecord,
    KernelRow,
    KernelTotals,
)
from mydyno.model.stored.records import RunRecord, SliceRecord
from mydyno.model.stored.summary import RunSummary
from mydyno.results.why.event_tables import (
    Compared,
    ComparedSides,
    EventTable,
    Item,
    alarm,
    compare_steps,
    counted_by_step,
    table_of,
)
from mydyno.results.why.slices_apart import slices_apart
from mydyno.store.counts import read_totals

LEAST_CALLS = 0.01
"""Per transaction, of arm and control together: system calls with fewer are not compared."""
MOST_CALLS = 30
"""System calls of a contrast in summary.json."""
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Histograms = Mapping[tuple[str, str, str], Counter[tuple[float, float]]]
"""{(step, arm, measure): {(low_us, high_us): events}}, the control's copies together."""


def kernel_of(
    folder: Path,
    experiment: Experiment,
    runs: Sequence[RunRecord],
    summaries: Sequence[RunSummary],
    slices: Sequence[SliceRecord],
    apart: Sequence[SliceRecord],
    alpha: float | None,
) -> KernelRecord | None:
    """The kernel view of a study; None where it was not asked for. alpha None: no look is due, and nothing is claimed.

    `apart`: the slices in which the kernel was traced.
    """
    facts = [one for run in runs for one in run.kernel]
    if not facts:
        return None
    files: dict[Path, KernelTotals] = {}

    def read(path: Path) -> KernelTotals:
        return files.setdefault(path, read_totals(path, KernelTotals))

    counted = counted_by_step(folder, experiment, runs, summaries, lambda run: run.kernel, read, _items)
    tables = {step: table_of(of_step) for step, of_step in counted.items()}
    differ = alarm(experiment.control, tables, _enough, alpha or 0.05, str)
    claims = alpha is not None and not differ
    seed = experiment.design.seed
    found = compare_steps(tables, experiment.contrasts(), _enough, alpha or 0.05, seed, claims)
    histograms = _histograms(folder, runs, files)
    return KernelRecord(
        contrasts=tuple(_contrast(*one, histograms) for one in found),
        tracer=next((one.tracer for one in files.values()), ""),
        absent={program: why for one in files.values() for program, why in one.absent.items()},
        **dict(slices_apart(facts, slices, apart, differ)),
    )


def _items(totals: KernelTotals) -> dict[Item, tuple[float, float]]:
    """{measure: (count, µs, or the count where there is no duration)}."""
    return {one.measure: (one.count, one.count if one.time_us is None else one.time_us) for one in totals.events}


def _enough(table: EventTable, _connection_us: float) -> NDArray[np.float64]:
    """Every measure is compared, also one that never occurred: then its interval states how often it may."""
    return np.array([LEAST_CALLS if str(item).startswith(SYSTEM_CALL) else 0.0 for item in table.items])


def _histograms(
    folder: Path, runs: Sequence[RunRecord], files: Mapping[Path, KernelTotals]
) -> dict[tuple[str, str, str], Counter[tuple[float, float]]]:
    found: dict[tuple[str, str, str], Counter[tuple[float, float]]] = {}
    for run in runs:
        for facts in run.kernel:
            totals = files.get(folder / run.folder / facts.file)
            for event in totals.events if totals else ():
                of = found.setdefault((facts.step, run.arm, event.measure), Counter())
                of.update({(one.low_us, one.high_us): one.count for one in event.histogram})
    return found


def percentiles_us(buckets: Sequence[Bucket]) -> dict[str, float]:
    """{p50: …}, evenly spread inside of each bucket; empty without events."""
    total = sum(one.count for one in buckets)
    found = {}
    for name, share in PERCENTILES.items():
        left = share * total
        for one in sorted(buckets, key=lambda one: one.low_us):
            if one.count and left <= one.count:
                found[name] = round(one.low_us + (one.high_us - one.low_us) * left / one.count, 3)
                break
            left -= one.count
    return found


def _of(histograms: Histograms, step: str, arm: str, measure: str) -> dict[str, float]:
    counts = histograms.get((step, arm, measure), Counter())
    return percentiles_us([Bucket(low_us=low, high_us=high, count=count) for (low, high), count in counts.items()])


def _contrast(step: str, arm: str, control: str, both: ComparedSides, histograms: Histograms) -> KernelContrast:
    rows = []
    for one in both.items:
        measure = str(one.item)
        rows.append(
            _row(one).model_copy(
                update={
                    "control_percentiles_us": _of(histograms, step, control, measure),
                    "arm_percentiles_us": _of(histograms, step, arm, measure),
                }
            )
        )
    order = list(MEASURES)
    measures = sorted((one for one in rows if not one.is_system_call), key=lambda one: order.index(one.measure))
    calls = sorted((one for one in rows if one.is_system_call), key=lambda one: -max(one.control_count, one.arm_count))
    return KernelContrast(
        step=step,
        arm=arm,
        control=control,
        blocks=both.blocks,
        control_us=both.control_us,
        arm_us=both.arm_us,
        rows=(*measures, *calls[:MOST_CALLS]),
    )


def _row(one: Compared) -> KernelRow:
    measure = str(one.item)
    spec = MEASURES.get(measure)
    counts = {"control_count": one.control_count, "arm_count": one.arm_count}
    if spec is not None and spec.is_time:
        return KernelRow(
            measure=measure, control_us=one.control, arm_us=one.arm, low_us=one.low, high_us=one.high,
            beyond_noise=one.beyond_noise, **counts,
        )  # fmt: skip
    return KernelRow(
        measure=measure, low_count=one.low, high_count=one.high, beyond_noise=one.beyond_noise, **counts
    )  # fmt: skip
