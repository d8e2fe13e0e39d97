"""The kernel view: run queue, futex waits, fsync, block I/O, retransmits and system calls of an arm and its control.

Events per transaction are compared as in results/why.py: what has a duration by its time, the rest by its
count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mydyno.analysis.base import Analysis, Examined
from mydyno.document import counted
from mydyno.document.parts import Cell, Part, Table
from mydyno.document.result import StudyResult
from mydyno.language import agreed
from mydyno.model.definition.special_steps import is_paced
from mydyno.model.stored.counted import (
    MEASURES,
    SYSTEM_CALL,
    Bucket,
    KernelContrast,
    KernelRecord,
    KernelRow,
    KernelTotals,
)
from mydyno.model.stored.records import RunRecord
from mydyno.results.why import (
    Compared,
    ComparedSides,
    EventTable,
    Item,
    alarm,
    compare_steps,
    counted_by_step,
    slices_apart,
    table_of,
)
from mydyno.store.samples import KERNEL_FILE, read_totals
from mydyno.wording.numbers import count_interval, signed_count, signed_time, significant, time_interval, time_text
from mydyno.wording.verdicts import alarm_clause

LEAST_CALLS = 0.01
"""Per transaction, of arm and control together: system calls with fewer are not compared."""
MOST_CALLS = 30
"""System calls of a contrast in summary.json."""
MOST_SHOWN = 10
"""System calls in a table."""
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Histograms = Mapping[tuple[str, str, str], Counter[tuple[float, float]]]
"""{(step, arm, measure): {(low_us, high_us): events}}, the control's copies together."""


def analyse(study: Examined) -> KernelRecord | None:
    """The kernel view of a study; None where it was not asked for."""
    experiment, runs, alpha = study.experiment, study.records, study.alpha_of_causes
    facts = [one for run in runs for one in run.kernel]
    if not facts:
        return None
    files: dict[Path, KernelTotals] = {}

    def read(path: Path) -> KernelTotals:
        return files.setdefault(path, read_totals(path, KernelTotals))

    of_steps = counted_by_step(study.path, experiment, runs, study.runs, lambda run: run.kernel, read, _items)
    tables = {step: table_of(of_step) for step, of_step in of_steps.items()}
    differ = alarm(experiment.control, tables, _enough, alpha or 0.05)
    claims = alpha is not None and not differ
    seed = experiment.design.seed
    found = compare_steps(tables, experiment.contrasts(), _enough, alpha or 0.05, seed, claims)
    histograms = _histograms(study.path, runs, files)
    return KernelRecord(
        contrasts=tuple(_contrast(*one, histograms) for one in found),
        tracer=next((one.tracer for one in files.values()), ""),
        absent={program: why for one in files.values() for program, why in one.absent.items()},
        **dict(slices_apart(facts, study.used_slices, study.apart[KERNEL_FILE], differ)),
    )


def _items(totals: KernelTotals) -> dict[Item, tuple[float, float]]:
    """{measure: (count, µs, or the count where there is no duration)}."""
    return {one.measure: (one.count, one.count if one.time_us is None else one.time_us) for one in totals.events}


def _enough(table: EventTable, _connection_us: float) -> NDArray[np.float64]:
    """Every measure is compared, also one that never occurred: then its interval states how often it may."""
    return np.array([LEAST_CALLS if str(item).startswith(SYSTEM_CALL) else 0.0 for item in table.sampled.items])


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
    of = {"step": step, "arm": arm, "control": control}
    return KernelContrast.like(both, **of, rows=(*measures, *calls[:MOST_CALLS]))


def _row(one: Compared) -> KernelRow:
    measure = str(one.item)
    spec = MEASURES.get(measure)
    if spec is not None and spec.is_time:
        times = {"control_us": one.control, "arm_us": one.arm, "low_us": one.low, "high_us": one.high}
        return KernelRow.like(one, measure=measure, **times)
    return KernelRow.like(one, measure=measure, low_count=one.low, high_count=one.high)


def leading(contrast: KernelContrast) -> KernelRow | None:
    """The largest difference beyond noise of what transactions wait for; without one, of another time."""
    shown = [one for one in contrast.rows if one.beyond_noise and one.arm_us is not None]
    waited_for = [one for one in shown if MEASURES[one.measure].is_waited_for]
    return max(waited_for or shown, key=lambda one: abs(one.change_us), default=None)


def sentence(contrast: KernelContrast, record: KernelRecord) -> str:
    """The answer for one contrast: what differs most, or that nothing differs."""
    if record.alarm:
        return f"No difference is claimed: {alarm_clause(record.alarm)}."
    first = leading(contrast)
    if first is not None:
        change = f"{time_text(first.control_us or 0.0)} → {time_text(first.arm_us or 0.0)}"
        name = f"{first.label[:1].upper()}{first.label[1:]}"
        return f"{name}: {change} per transaction ({interval_text(first)}). This is the largest difference in time."
    often = next((one for one in contrast.rows if one.beyond_noise), None)
    if often is not None:
        change = f"{number_text(often.control_count)} → {number_text(often.arm_count)}"
        return (
            f"No time differs beyond noise, but a count does: {often.label}, {change} per transaction "
            f"({interval_text(often)})."
        )
    words = "No time and no count of the kernel differs beyond noise."
    return counted.with_few_blocks(words, contrast.blocks)


def time_rows(contrast: KernelContrast) -> list[KernelRow]:
    """What has a duration and occurred."""
    return [one for one in contrast.rows if one.arm_us is not None and (one.control_count or one.arm_count)]


def count_rows(contrast: KernelContrast) -> list[KernelRow]:
    """What is counted alone: retransmits, all system calls, then single ones: those that differ first."""
    numbers = [one for one in contrast.rows if one.arm_us is None]
    calls = [one for one in numbers if one.is_system_call]
    return [
        *(one for one in numbers if not one.is_system_call),
        *sorted(calls, key=lambda one: not one.beyond_noise)[:MOST_SHOWN],
    ]


def number_text(count: float) -> str:
    """How often something occurs per transaction."""
    return "0" if count == 0.0 else significant(count, 3 if count >= 1.0 else 2)


def difference_text(one: KernelRow) -> str:
    """The difference with its sign."""
    if one.arm_us is not None:
        return signed_time(one.change_us)
    return signed_count(one.arm_count - one.control_count)


def interval_text(one: KernelRow) -> str:
    """The interval of the difference."""
    if one.arm_us is not None:
        return time_interval(one.low_us, one.high_us)
    return count_interval(one.low_count, one.high_count)


def quality(record: KernelRecord) -> list[str]:
    """How it was measured, what that cost, and what is missing: a sentence each."""
    found = [
        agreed(
            f"Traced by {record.tracer or 'bpftrace'} in {record.slices} slices of their own, which enter no "
            "effect. In the measured slices nothing was loaded into the kernel."
        )
    ]
    found += counted.cost_sentences(record, "the tracing")
    found.append(
        "Times overlap: fsync contains its block I/O, and a futex wait ends with time in the run queue. Do "
        "not add them up."
    )
    for program, why in record.absent.items():
        labels = ", ".join(one.label for one in MEASURES.values() if one.program == program)
        found.append(f"Not measured: {labels} ({why}).")
    return found + [f"Not all runs were traced: {why}." for why in record.missing[:3]]


def lines(result: StudyResult) -> list[str]:
    """For a terminal: a sentence for each contrast in which a time differs."""
    record = result.summary.kernel
    if record is None:
        return []
    return counted.contrast_lines(
        result, record, record.contrasts, lambda one: leading(one) is not None, lambda one: sentence(one, record)
    )


def part(result: StudyResult) -> Part | None:
    """The section; None where the kernel was not traced."""
    record = result.summary.kernel
    if record is None:
        return None
    paced = {step.id for step in result.study.experiment.resolved_steps if is_paced(step)}
    found = [(one, sentence(one, record), _tables(one, one.step in paced)) for one in record.contrasts]
    body = counted.body(result, found, "kernel", None, quality(record))
    says = counted.finding(result, record, found, [any(of.beyond_noise for of in one.rows) for one in record.contrasts])
    return Part(id="kernel", heading="What the kernel does for the server", says=says, body=body)


def _tables(contrast: KernelContrast, paced: bool) -> list[Table]:
    times = time_rows(contrast)
    found = [
        _compared(contrast, "Time per transaction", times, "" if paced else counted.connection_note(contrast)),
        _durations(contrast, [one for one in times if one.control_percentiles_us or one.arm_percentiles_us]),
        _compared(contrast, "Number per transaction", count_rows(contrast)),
    ]
    return [one for one in found if one.rows]


def _compared(contrast: KernelContrast, caption: str, records: Sequence[KernelRow], note: str = "") -> Table:
    rows: list[Sequence[str | Cell]] = [
        [
            one.label,
            _amount(one.control_us, one.control_count),
            _amount(one.arm_us, one.arm_count),
            Cell(difference_text(one), "num strong" if one.beyond_noise else "num"),
            Cell(interval_text(one), "num"),
        ]
        for one in records
    ]
    head = ("measure", contrast.control, contrast.arm, "difference", "interval")
    return Table(caption, head, rows, note)


def _amount(us: float | None, count: float) -> Cell:
    if us is None:
        return Cell(number_text(count), "num")
    return Cell(time_text(us), "num", below=counted.count_text(count))


def _durations(contrast: KernelContrast, records: Sequence[KernelRow]) -> Table:
    """The durations of single events. Buckets double, so two digits are enough."""
    rows: list[Sequence[str | Cell]] = [
        [
            one.label,
            *(
                Cell(time_text(of[name]) if of else "–", "num")
                for of in (one.control_percentiles_us, one.arm_percentiles_us)
                for name in ("p50", "p99")
            ),
        ]
        for one in records
    ]
    head = ("measure", *(f"{arm}: {name}" for arm in (contrast.control, contrast.arm) for name in ("p50", "p99")))
    return Table("Duration of single events, from histograms whose buckets double", head, rows)


ANALYSIS = Analysis(chapter="why", part=part, stored="kernel", analyse=analyse, lines=lines)
