"""What an arm's values are together: percentiles of histograms, which cannot be averaged, and the absolute value.

Imported by reports, so that nothing heavy is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, geometric_mean

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
ENGINES_HIGHEST_NS = (1 << 43) - 1
"""Highest value of the engine's histograms: histograms of equal bounds are added in one step, others value by value."""


def percentiles_of(histograms: Sequence[str]) -> dict[str, float]:
    """{p50, p90, p95, p99, p999} in µs of several encoded histograms (nanoseconds) together; empty without a value."""
    from hdrh.histogram import HdrHistogram

    together = HdrHistogram(1, ENGINES_HIGHEST_NS, 3)
    for encoded in histograms:
        together.decode_and_add(encoded)
    if not together.get_total_count():
        return {}
    return {name: together.get_value_at_percentile(share) / 1000 for name, share in PERCENTILES.items()}


def absolute_mean(values: Sequence[float]) -> float:
    """The geometric mean: the ratio of two arms' means is the effect where every block has all of its runs.

    The arithmetic mean where a value is not positive. `values` has at least one.
    """
    return geometric_mean(values) if min(values) > 0 else fmean(values)
