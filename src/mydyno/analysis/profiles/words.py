"""What reports print of CPU profiles: the sentence for each contrast, and the rows of its table; in all formats."""

from __future__ import annotations

from mydyno.document import counted
from mydyno.language import agreed
from mydyno.model.stored.profiles import FrameRecord, ProfileContrast, ProfilesRecord
from mydyno.wording.numbers import percent, time_interval, time_text
from mydyno.wording.reasons import alarm_clause

MOST_ROWS = 12


def sentence(contrast: ProfileContrast, record: ProfilesRecord) -> str:
    """The answer for one contrast: which function leads, or that none differs."""
    leading = contrast.leading
    total = contrast.arm_us - contrast.control_us
    if record.alarm:
        return f"No difference is claimed: {alarm_clause(record.alarm)}."
    if not leading:
        return counted.with_few_blocks("No function's CPU time per transaction differs beyond noise.", contrast.blocks)
    first = leading[0]
    of_all = first.change_us / (total or 1.0)
    share = f", {percent(of_all)} of the difference in CPU time" if 0.0 < of_all <= 1.2 else ""
    others = f" {len(leading) - 1} more differ beyond noise." if len(leading) > 1 else ""
    amount = f"{time_text(abs(first.change_us))} {'more' if first.change_us > 0 else 'less'}"
    interval = time_interval(first.low_us, first.high_us)
    return f"{first.label} takes {amount} CPU time per transaction ({interval}){share}.{others}"


def rows(contrast: ProfileContrast) -> list[FrameRecord]:
    """The rows of the table: the functions that are named; without any, those with most CPU time of their own."""
    found = contrast.leading
    if not found:
        found = sorted(contrast.frames, key=lambda one: -max(one.arm_self_us, one.control_self_us))
    return found[:MOST_ROWS]


def _origin(record: ProfilesRecord) -> list[str]:
    """By what the samples were taken, and what they show."""
    where = agreed(f"in {record.slices} slices of their own, which enter no effect")
    if record.method == "perf":
        how = f"by {record.profiler} ({record.event}, {record.frequency_hz} per second and CPU)"
        return [agreed(f"{record.samples:,} samples of the servers' stacks {how} {where}.")]
    found = [
        agreed(
            f"{record.samples:,} samples of the servers' threads ({record.frequency_hz} per second and thread) {where}"
            ": kernel stacks sampled from /proc, without functions of the server, as perf is missing."
        )
    ]
    if record.waiting > 0:
        found.append(
            agreed(
                f"{percent(record.waiting)} of the samples are of threads that waited for a disk "
                "(uninterruptible wait) or for a CPU. They are in the stored stacks and not in the CPU times."
            )
        )
    return found


def quality(record: ProfilesRecord) -> list[str]:
    """How the profile was made, what it cost, and what is missing from it: a sentence each."""
    found = _origin(record)
    found += counted.cost_sentences(record, "the profile", "the profiled slices", ", which do not bear it")
    if record.unknown > 0 and record.method == "perf":
        modules = ", ".join(f"{name} {percent(share)}" for name, share in list(record.unknown_modules.items())[:3])
        found.append(
            f"{percent(record.unknown)} of the frames have no name, as symbols are missing ({modules}); they count as "
            "one function [unknown] of their module. Debug symbols of the server's package give them names."
        )
    if record.cut_off >= 0.001:
        found.append(f"{percent(record.cut_off)} of the stacks are cut off; the graph shows them apart.")
    if record.lost_samples:
        found.append(f"{record.lost_samples:,} samples were lost.")
    found += [f"Not all runs were profiled: {why}." for why in record.missing[:3]]
    return found
