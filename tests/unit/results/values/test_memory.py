"""Memory of interleaved servers: after as many queries as the server that served fewest, and how it grows."""

from __future__ import annotations

from collections import Counter

import pytest

from mydyno.model.definition.special_steps import EARLY, EARLY_QUERIES, MEMORY, QUERIES
from mydyno.model.metrics import FEWEST_OF_GROWTH, GROWTH
from mydyno.results.values.interleaved import interleaved_values
from mydyno.results.values.step_slices import lane_of
from tests.support.fake_script import experiment
from tests.support.fake_slices import QUIET, Simulation

STEP = "oltp_read_only-4"


def test_memory_that_grows_with_the_queries_is_no_larger_for_a_faster_arm() -> None:
    served: Counter[tuple[str, int]] = Counter()
    slices = []
    for one in Simulation(effects={"jemalloc": 1.0}, blocks=1, cycles=20, host=QUIET).slices(seed=1):
        lane = lane_of(one)[1:]
        served[lane] += one.queries
        planted = 1.1 if one.arm == "jemalloc" else 1.0
        slices.append(one.model_copy(update=dict.fromkeys(MEMORY, planted * (1e8 + 1e4 * served[lane]))))
    assert served["jemalloc", 1] > 1.8 * served["glibc", 1]
    asked = experiment(("glibc", "jemalloc"), design={"kind": "interleaved", "blocks": 1, "cycles": 20})
    values = interleaved_values(asked, slices).adjusted
    for name in MEMORY:
        found = {lane[1:]: steps[STEP][name] for lane, steps in values.items()}
        assert found["jemalloc", 1] / found["glibc", 1] == pytest.approx(1.1, rel=0.02)
        assert found["jemalloc", 1] > 1.5e8, "most of the memory is what was served"


def test_load_before_the_first_cycle_counts_and_memory_is_compared_early_and_late() -> None:
    """The control's copies also had a longer warm-up: 300,000 queries that the other arm did not have."""
    served = Counter({("glibc", 1): 300_000, ("glibc", 2): 300_000})
    slices = []
    for one in Simulation(effects={}, blocks=1, cycles=20, host=QUIET).slices(seed=1):
        lane = lane_of(one)[1:]
        served[lane] += 100_000
        planted = 1.1 if one.arm == "jemalloc" else 1.0
        memory = {"server_rss_bytes": planted * (1e8 + 100 * served[lane])}
        slices.append(one.model_copy(update={**memory, "served": served[lane]}))
    asked = experiment(("glibc", "jemalloc"), design={"kind": "interleaved", "blocks": 1, "cycles": 20})
    found = {lane[1:]: steps[STEP] for lane, steps in interleaved_values(asked, slices).adjusted.items()}
    for name, queries in (("server_rss_bytes", 2_000_000), (EARLY, 400_000)):
        assert found["glibc", 1][name] == found["glibc", 2][name] == pytest.approx(1e8 + 100 * queries)
        assert found["jemalloc", 1][name] / found["glibc", 1][name] == pytest.approx(1.1)
    assert {values[QUERIES] for values in found.values()} == {2_000_000}
    assert {values[EARLY_QUERIES] for values in found.values()} == {400_000}


def test_memory_is_not_compared_where_one_arm_had_served_more_at_first_than_another_at_last() -> None:
    slices = []
    served = Counter({("jemalloc", 1): 1_000_000})
    for one in Simulation(effects={}, blocks=1, cycles=4, host=QUIET).slices(seed=1):
        lane = lane_of(one)[1:]
        served[lane] += 100_000
        slices.append(one.model_copy(update={"server_rss_bytes": 1e8 + served[lane], "served": served[lane]}))
    asked = experiment(("glibc", "jemalloc"), design={"kind": "interleaved", "blocks": 1, "cycles": 4})
    values = interleaved_values(asked, slices).adjusted
    assert not any(MEMORY[0] in steps[STEP] or EARLY in steps[STEP] for steps in values.values())


def test_memory_that_grows_by_one_percent_a_million_queries_has_that_growth_however_fast_it_serves() -> None:
    slices = []
    served: Counter[tuple[str, int]] = Counter()
    for one in Simulation(effects={"jemalloc": 1.0}, blocks=1, cycles=FEWEST_OF_GROWTH, host=QUIET).slices(seed=1):
        lane = lane_of(one)[1:]
        served[lane] += one.queries
        rss = 3e8 * (1.01 if one.arm == "jemalloc" else 1.0) ** (served[lane] / 1e6)
        slices.append(one.model_copy(update={"server_rss_bytes": rss, "served": served[lane]}))
    asked = experiment(("glibc", "jemalloc"), design={"kind": "interleaved", "blocks": 1})

    def growth(first_cycles: int) -> dict[tuple[str, int], float]:
        some = [one for one in slices if one.cycle <= first_cycles]
        values = interleaved_values(asked, some).adjusted
        return {lane[1:]: steps[STEP][GROWTH] for lane, steps in values.items() if GROWTH in steps[STEP]}

    found = growth(FEWEST_OF_GROWTH)
    assert found == pytest.approx({("glibc", 1): 1.0, ("glibc", 2): 1.0, ("jemalloc", 1): 1.01}, abs=1e-6)
    assert growth(FEWEST_OF_GROWTH - 1) == {}, "too few slices"
