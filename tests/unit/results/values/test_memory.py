"""Memory of interleaved servers is compared where each has served as many queries as the one that served fewest."""

from __future__ import annotations

from collections import Counter

import pytest

from mydyno.results.values.interleaved import MEMORY, interleaved_values
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
    values = interleaved_values(asked, slices, client_untouched=True).adjusted
    for name in MEMORY:
        found = {lane[1:]: steps[STEP][name] for lane, steps in values.items()}
        assert found["jemalloc", 1] / found["glibc", 1] == pytest.approx(1.1, rel=0.02)
        assert found["jemalloc", 1] > 1.5e8, "most of the memory is what was served"
