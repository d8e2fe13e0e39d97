"""Which covariates adjust the values, and from how many slices on."""

from __future__ import annotations

import numpy as np
import pytest

from mydyno.results.values.interleaved import interleaved_values
from mydyno.results.values.step_slices import groups_of
from tests.support.fake_script import experiment
from tests.support.fake_slices import Simulation


@pytest.mark.parametrize(("blocks", "cycles", "missing"), [(1, 8, 0), (6, 2, 0), (6, 3, 4), (20, 1, 0)])
def test_the_freedom_is_what_the_means_of_lanes_and_cycles_leave(blocks: int, cycles: int, missing: int) -> None:
    slices = list(Simulation(blocks=blocks, cycles=cycles).slices(seed=2))[missing:]
    groups = groups_of(slices)
    means = np.hstack(
        [groups.lane[:, None] == np.unique(groups.lane), groups.cycle[:, None] == np.unique(groups.cycle)]
    )
    assert groups.residual_freedom() == len(slices) - np.linalg.matrix_rank(means.astype(float))


@pytest.mark.parametrize(("blocks", "chosen"), [(5, ("driver_cpu",)), (10, ("driver_cpu", "available_cpu"))])
def test_two_cycles_of_two_arms_are_adjusted_from_five_blocks_on(blocks: int, chosen: tuple[str, ...]) -> None:
    """Two of the control's copies and one arm: 2 degrees of freedom a block."""
    asked = experiment(("glibc", "jemalloc"), design={"kind": "interleaved", "blocks": blocks, "cycles": 2})
    record = interleaved_values(
        asked, list(Simulation(blocks=blocks, cycles=2).slices(seed=3)), client_untouched=True
    ).record
    assert record.covariates == chosen
    found = record.coefficients["oltp_read_only-4"]["server_cpu_us_per_query"]
    assert found["driver_cpu"] > 0.3
