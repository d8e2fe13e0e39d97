"""The kernel view: run queue, futex waits, fsync, block I/O, retransmits and system calls of an arm and its control."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Section, Table, render
from mydyno.model.stored.kernel import KernelContrast, KernelRow
from mydyno.wording import counted, kernel
from mydyno.wording.numbers import time_text
from mydyno.wording.profiles import heading


def build(result: StudyResult) -> Section | None:
    """The section; None where the kernel was not traced."""
    record = result.summary.kernel
    if record is None:
        return None
    return Section(
        "kernel",
        "What the kernel does for the server",
        "Kernel",
        render(
            "counted.html",
            found=[
                (
                    heading(result, one),
                    f"{heading(result, one)}: kernel",
                    kernel.sentence(one, record),
                    _tables(one),
                    "",
                )
                for one in record.contrasts
            ],
            nothing=counted.why_nothing(result, record.contrasts),
            quality=[*kernel.quality(record), counted.together(result)],
        ),
        says="run queue, futex, fsync, block I/O and system calls per transaction",
    )


def _tables(contrast: KernelContrast) -> list[Table]:
    times = kernel.time_rows(contrast)
    found = [
        _compared(contrast, "Time per transaction", times, counted.connection_note(contrast)),
        _durations(contrast, [one for one in times if one.control_percentiles_us or one.arm_percentiles_us]),
        _compared(contrast, "Number per transaction", kernel.count_rows(contrast)),
    ]
    return [one for one in found if one.rows]


def _compared(contrast: KernelContrast, caption: str, records: Sequence[KernelRow], note: str = "") -> Table:
    rows: list[Sequence[str | Cell]] = [
        [
            kernel.name_text(one),
            _amount(one.control_us, one.control_count),
            _amount(one.arm_us, one.arm_count),
            Cell(kernel.difference_text(one), "num strong" if one.beyond_noise else "num"),
            Cell(kernel.interval_text(one), "num"),
        ]
        for one in records
    ]
    head = ("measure", contrast.control, contrast.arm, "difference", "interval")
    return Table(caption, head, rows, note)


def _amount(us: float | None, count: float) -> Cell:
    if us is None:
        return Cell(kernel.number_text(count), "num")
    return Cell(time_text(us), "num", below=counted.count_text(count))


def _durations(contrast: KernelContrast, records: Sequence[KernelRow]) -> Table:
    """The durations of single events. Buckets double, so two digits are enough."""
    rows: list[Sequence[str | Cell]] = [
        [
            kernel.name_text(one),
            *(
                Cell(time_text(of[name]) if of else "–", "num")
                for of in (one.control_percentiles_us, one.arm_percentiles_us)
                for name in ("p50", "p99")
            ),
        ]
        for one in records
    ]
    head = (
        "measure",
        *(f"{arm}: {name}" for arm in (contrast.control, contrast.arm) for name in ("p50", "p99")),
    )
    return Table("Duration of single events, from histograms whose buckets double", head, rows)
