"""Percentiles of several parts are those of all their values together, not of one part and no mean of percentiles."""

from __future__ import annotations

import pytest
from hdrh.histogram import HdrHistogram

from mydyno.stats.percentiles import ENGINES_HIGHEST_NS, percentiles_of


def encoded(*values_us: int) -> str:
    histogram = HdrHistogram(1, ENGINES_HIGHEST_NS, 3)
    for value_us in values_us:
        histogram.record_value(value_us * 1000)
    return str(histogram.encode().decode())


@pytest.mark.parametrize("slow_first", [False, True])
def test_percentiles_are_those_of_all_values(slow_first: bool) -> None:
    quick, slow = encoded(*[1000] * 93), encoded(*[20_000] * 5, *[300_000] * 2)
    found = percentiles_of([slow, quick] if slow_first else [quick, slow])
    expected = {"p50": 1000, "p90": 1000, "p95": 20_000, "p99": 300_000, "p999": 300_000}
    assert found == {name: pytest.approx(value, rel=2e-3) for name, value in expected.items()}


def test_without_a_value_there_are_no_percentiles() -> None:
    assert percentiles_of([]) == percentiles_of([encoded()]) == {}
