"""Where an arm saturates, in a sentence that claims no more than the measured levels show."""

from __future__ import annotations

from mydyno.language import tr
from mydyno.model.stored.scalability import ScalabilityRecord
from mydyno.wording.capacity import rate_words
from mydyno.wording.numbers import size


def peak_within(record: ScalabilityRecord) -> bool:
    """Whether the fitted peak lies within the measured levels."""
    return record.peak is not None and record.levels[0] <= record.peak.value <= record.levels[-1]


def saturation(record: ScalabilityRecord) -> str:
    """The sentence of one arm; it names the measured levels where the law does not hold."""
    most, arm = record.levels[-1], record.arm
    best = record.levels[record.throughput.index(max(record.throughput))]
    if not record.fits:
        off = size(record.largest_deviation)
        return tr(
            "{arm} does not follow the law (off by up to {off}); it was fastest at {best} connections.",
            arm=arm, off=off, best=best,
        )  # fmt: skip
    if record.peak is not None and peak_within(record):
        return tr(
            "{arm} is fastest at about {peak:.0f} connections{interval}.",
            arm=arm, peak=record.peak.value, interval=_interval(record),
        )  # fmt: skip
    contention = record.contention.value
    if record.peak is not None or contention <= 0:
        return tr("{arm} is not saturated at {most} connections, the most that were measured.", arm=arm, most=most)
    bound = record.serial.value / contention
    share = record.throughput[-1] / bound
    reached = size(min(1.0, share))
    return tr(
        "{arm} levels off towards {rate}/s and reaches {reached} of it at {most} connections.",
        arm=arm, rate=rate_words(bound), reached=reached, most=most,
    )  # fmt: skip


def _interval(record: ScalabilityRecord) -> str:
    """The peak's interval; what lies beyond the measured levels is not given as a number."""
    peak = record.peak
    if peak is None or peak.ci_low is None or peak.ci_high is None:
        return ""
    low, high = max(peak.ci_low, record.levels[0]), peak.ci_high
    return (
        tr(" ({low:.0f} or more)", low=low)
        if high > record.levels[-1]
        else tr(" ({low:.0f} to {high:.0f})", low=low, high=high)
    )
