"""A run's values in their units: totals of its slices over totals. A comparison would not show a wrong factor."""

from __future__ import annotations

import pytest

from mydyno.results.values.interleaved import interleaved_values
from mydyno.results.values.step_slices import lane_of
from tests.support.fake_script import experiment
from tests.support.fake_slices import QUIET, Simulation

STEP = "oltp_read_only-4"
RATIOS = {
    "qps": ("queries", "length_s", 1.0),
    "tps": ("transactions", "length_s", 1.0),
    "server_cpu_us_per_query": ("server_cpu_s", "queries", 1e6),
    "server_cpu_us_per_transaction": ("server_cpu_s", "transactions", 1e6),
    "driver_cpu_us_per_transaction": ("driver_cpu_s", "transactions", 1e6),
}


@pytest.mark.parametrize("metric", RATIOS)
def test_values_are_totals_over_totals_in_their_unit(metric: str) -> None:
    over, under, factor = RATIOS[metric]
    slices = list(Simulation(blocks=2, cycles=4, host=QUIET).slices(seed=1))
    asked = experiment(("glibc", "jemalloc"), design={"kind": "interleaved", "blocks": 2, "cycles": 4})
    values = interleaved_values(asked, slices, client_untouched=True).unadjusted
    assert len(values) == 6
    for lane, steps in values.items():
        own = [one for one in slices if lane_of(one) == lane]
        total = factor * sum(getattr(one, over) for one in own) / sum(getattr(one, under) for one in own)
        assert steps[STEP][metric] == pytest.approx(total, rel=1e-6)
