"""Where an arm saturates, in a sentence that claims no more than the measured levels show."""

from __future__ import annotations

from mydyno.language import agreed
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
        return agreed(f"{arm} does not follow the law (off by up to {off}); it was fastest at {best} connections.")
    if record.peak is not None and peak_within(record):
        return f"{arm} is fastest at about {record.peak.value:.0f} connections{_interval(record)}."
    contention = record.contention.value
    if record.peak is not None or contention <= 0:
        return agreed(f"{arm} is not saturated at {most} connections, the most that were measured.")
    bound = record.serial.value / contention
    share = record.throughput[-1] / bound
    reached = size(min(1.0, share))
    return agreed(f"{arm} levels off towards {rate_words(bound)}/s and reaches {reached} of it at {most} connections.")


def _interval(record: ScalabilityRecord) -> str:
    """The peak's interval; what lies beyond the measured levels is not given as a number."""
    peak = record.peak
    if peak is None or peak.ci_low is None or peak.ci_high is None:
        return ""
    low, high = max(peak.ci_low, record.levels[0]), peak.ci_high
    return f" ({low:.0f} or more)" if high > record.levels[-1] else f" ({low:.0f} to {high:.0f})"
