"""What reports print of the kernel view: the sentence for each contrast, and the rows of its tables."""

from __future__ import annotations

from mydyno.language import agreed
from mydyno.model.stored.kernel import MEASURES, SYSTEM_CALL, KernelContrast, KernelRecord, KernelRow
from mydyno.results.why.leading import leading_time, time_change_us
from mydyno.wording import counted
from mydyno.wording.numbers import count_interval, signed_count, signed_time, significant, time_interval, time_text
from mydyno.wording.reasons import alarm_clause
from mydyno.wording.stored_result import StoredResult

MOST_CALLS = 10


def sentence(contrast: KernelContrast, record: KernelRecord) -> str:
    """The answer for one contrast: what differs most, or that nothing differs."""
    if record.alarm:
        return f"No difference is claimed: {alarm_clause(record.alarm)}."
    first = leading_time(contrast)
    if first is not None:
        return "The largest difference in time: {measure}, {change} per transaction ({interval}).".format(
            measure=name_text(first),
            change=f"{amount_text(first.control_us)} → {amount_text(first.arm_us)}",
            interval=interval_text(first),
        )
    often = next((one for one in contrast.rows if one.beyond_noise), None)
    if often is not None:
        return (
            "No time differs beyond noise, but a count does: {measure}, {change} per transaction ({interval})."
        ).format(
            measure=name_text(often),
            change=f"{number_text(often.control_count)} → {number_text(often.arm_count)}",
            interval=interval_text(often),
        )
    words = "No time and no count of the kernel differs beyond noise."
    return counted.with_few_blocks(words, contrast.blocks)


def accompanying_sentence(first: KernelRow, share: float) -> str:
    """The sentence on the first measure that accompanies() found."""
    what = f"In the kernel, {name_text(first)}"
    change = f"{amount_text(first.control_us)} → {amount_text(first.arm_us)}"
    return counted.accounting_sentence(what, change, interval_text(first), share)


def time_rows(contrast: KernelContrast) -> list[KernelRow]:
    """What has a duration and occurred."""
    return [one for one in contrast.rows if one.arm_us is not None and (one.control_count or one.arm_count)]


def count_rows(contrast: KernelContrast) -> list[KernelRow]:
    """What is counted alone: retransmits, all system calls, then single ones: those that differ first."""
    counted = [one for one in contrast.rows if one.arm_us is None]
    calls = [one for one in counted if one.is_system_call]
    return [
        *(one for one in counted if not one.is_system_call),
        *sorted(calls, key=lambda one: not one.beyond_noise)[:MOST_CALLS],
    ]


def name_text(one: KernelRow) -> str:
    """A measure in the present language; a system call's own name."""
    if one.is_system_call:
        return f"{one.measure.removeprefix(SYSTEM_CALL)}()"
    return MEASURES[one.measure].label


def amount_text(us: float | None) -> str:
    """A time per transaction; a dash for none."""
    return "–" if us is None else time_text(us)


def number_text(count: float) -> str:
    """How often something occurs per transaction."""
    return "0" if count == 0.0 else significant(count, 3 if count >= 1.0 else 2)


def difference_text(one: KernelRow) -> str:
    """The difference with its sign."""
    if one.arm_us is not None:
        return signed_time(time_change_us(one))
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
    cost = counted.cost_facts(record)
    if cost is not None:
        found.append(
            agreed(
                (
                    "Cost of the tracing: throughput {ratio}{interval} in these slices, compared with the "
                    "measured slices before and after them."
                ).format(**cost)
            )
        )
    found.append(
        "Times overlap: fsync contains its block I/O, and a futex wait ends with time in the run queue. Do "
        "not add them up."
    )
    for program, why in record.absent.items():
        labels = ", ".join(one.label for one in MEASURES.values() if one.program == program)
        found.append(f"Not measured: {labels} ({why}).")
    return found + [f"Not all runs were traced: {why}." for why in record.missing[:3]]


def lines(result: StoredResult) -> list[str]:
    """For a terminal: a sentence for each contrast in which a time differs."""
    record = result.summary.kernel
    if record is None:
        return []
    return counted.contrast_lines(
        result, record, record.contrasts, lambda one: leading_time(one) is not None, lambda one: sentence(one, record)
    )
