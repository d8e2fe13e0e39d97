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
    values = interleaved_values(asked, slices).unadjusted
    assert len(values) == 6
    for lane, steps in values.items():
        own = [one for one in slices if lane_of(one) == lane]
        total = factor * sum(getattr(one, over) for one in own) / sum(getattr(one, under) for one in own)
        assert steps[STEP][metric] == pytest.approx(total, rel=1e-6)


def test_the_worst_instance_and_the_spread_are_of_the_instances_means() -> None:
    """Two instances of one arm whose slices alternate: 30 and 70 transactions, then 90 and 10; means 60 and 40."""
    slices = []
    for one in Simulation(blocks=1, cycles=4, host=QUIET).slices(seed=1):
        rates = {"tpmc": 100.0}
        if one.arm == "jemalloc":
            first, second = ((30.0, 70.0), (90.0, 10.0))[one.cycle % 2]
            rates |= {"tpmc_instance_1": first, "tpmc_instance_2": second}
        slices.append(one.model_copy(update={"rates": one.rates | rates}))
    asked = experiment(("glibc", "jemalloc"), design={"kind": "interleaved", "blocks": 1, "cycles": 4})
    values = interleaved_values(asked, slices).adjusted
    of = {lane[1:]: steps[STEP] for lane, steps in values.items()}
    assert of["jemalloc", 1]["tpmc_worst_instance"] == pytest.approx(40.0)
    assert of["jemalloc", 1]["tpmc_spread_pct"] == pytest.approx(40.0)
    assert of["glibc", 1]["tpmc_worst_instance"] == pytest.approx(100.0)
    assert "tpmc_spread_pct" not in of["glibc", 1]
