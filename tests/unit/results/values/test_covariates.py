"""Which covariates adjust the values, and from how many slices on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from mydyno.model.stored.records import SliceRecord
from mydyno.results.values.interleaved import InterleavedValues, interleaved_values
from mydyno.results.values.step_slices import groups_of, lane_of
from mydyno.stats.slices import LARGEST_SLOPE
from tests.support.fake_script import experiment
from tests.support.fake_slices import QUIET, Simulation


@pytest.mark.parametrize(("blocks", "cycles", "missing"), [(1, 8, 0), (6, 2, 0), (6, 3, 4), (20, 1, 0)])
def test_the_freedom_is_what_the_means_of_lanes_and_cycles_leave(blocks: int, cycles: int, missing: int) -> None:
    slices = list(Simulation(blocks=blocks, cycles=cycles).slices(seed=2))[missing:]
    groups = groups_of(slices)
    means = np.hstack(
        [groups.lane[:, None] == np.unique(groups.lane), groups.cycle[:, None] == np.unique(groups.cycle)]
    )
    assert groups.residual_freedom() == len(slices) - np.linalg.matrix_rank(means.astype(float))


def on_a_host_that_wanders(slices: Sequence[SliceRecord]) -> list[SliceRecord]:
    """The slices as on a host whose speed changes by 40 % within some forty seconds."""
    found = []
    for one in slices:
        speed = math.exp(0.2 * math.sin((one.started_unix_ns - slices[0].started_unix_ns) / 1e9 / 6))
        queries, cpu = round(one.queries * speed), {"driver_cpu_s": one.driver_cpu_s, "server_cpu_s": one.server_cpu_s}
        found.append(one.model_copy(update={"queries": queries, **cpu}))
    return found


def with_dearer_client(slices: Sequence[SliceRecord], arm: str, cost: float) -> list[SliceRecord]:
    """The slices as if the arm's load program took more CPU time for a query, by this share."""
    return [
        one.model_copy(update={"driver_cpu_s": (one.driver_cpu_s or 0.0) * (1 + cost * (one.arm == arm))})
        for one in slices
    ]


def found_in(slices: Sequence[SliceRecord]) -> InterleavedValues:
    return interleaved_values(experiment(("glibc", "jemalloc"), design={"kind": "interleaved"}), slices)


STEP = "oltp_read_only-4"
ADJUSTED = ("qps", "server_cpu_us_per_query")


def test_values_are_adjusted_for_what_the_slices_of_other_arms_around_show_of_the_hosts_speed() -> None:
    slices = on_a_host_that_wanders(list(Simulation(host=QUIET, slice_sd=0.005, start_sd=0).slices(seed=3)))
    values = found_in(slices)
    assert values.record.covariates[0] == "driver_cpu_around"
    assert values.record.coefficients[STEP]["qps"]["driver_cpu_around"] == pytest.approx(-1, abs=0.2)
    assert values.record.coefficients[STEP]["server_cpu_us_per_query"]["driver_cpu_around"] == pytest.approx(1, abs=0.2)
    for metric in ADJUSTED:
        spreads = [
            np.std([
                math.log(of[block, "glibc", 2][STEP][metric] / of[block, "glibc", 1][STEP][metric])
                for block in range(1, 7)
            ])
            for of in (values.adjusted, values.unadjusted)
        ]  # fmt: skip
        assert spreads[0] < 0.7 * spreads[1], metric


def test_a_metric_that_the_host_does_not_change_is_not_adjusted() -> None:
    values = found_in(list(Simulation(host=QUIET, slice_sd=0.05).slices(seed=3)))
    for metric in ADJUSTED:
        for slope in values.record.coefficients[STEP].get(metric, {}).values():
            assert abs(slope) <= LARGEST_SLOPE
    for lane, steps in values.adjusted.items():
        for metric in ADJUSTED:
            assert steps[STEP][metric] == pytest.approx(values.unadjusted[lane][STEP][metric], rel=0.03)


@pytest.mark.parametrize("later", [1, 2])
@pytest.mark.parametrize("cost", [0.01, 0.05, 0.5])
@pytest.mark.parametrize("unused", [0, 3])
def test_what_an_arm_leaves_to_do_for_later_slices_changes_no_adjusted_value(
    cost: float, later: int, unused: int
) -> None:
    """Its client, or its server, still works while other arms are loaded, whose client costs more by that; also where
    its own slices are not used, as they are of a cycle with unequal steal.
    """
    slices = [
        one.model_copy(update={"steal": 0.5}) if (one.cycle, one.position) == (2, 1) and one.block <= unused else one
        for one in on_a_host_that_wanders(list(Simulation(slice_sd=0.005).slices(seed=3)))
    ]
    after = [
        one.model_copy(update={"driver_cpu_s": (one.driver_cpu_s or 0.0) * (1 + cost)})
        if (before.arm, before.block) == ("jemalloc", one.block)
        else one
        for before, one in zip((*slices[-later:], *slices), slices, strict=False)
    ]
    plain, left = (found_in(of) for of in (slices, after))
    assert plain.record.covariates
    assert plain.record.dropped_cycles == unused
    for lane, steps in plain.adjusted.items():
        for metric in ADJUSTED:
            assert left.adjusted[lane][STEP][metric] == pytest.approx(steps[STEP][metric], rel=1e-9)


@pytest.mark.parametrize("cost", [0.01, 0.05, 0.5])
def test_what_an_arm_makes_its_client_do_changes_no_adjusted_value(cost: float) -> None:
    slices = on_a_host_that_wanders(list(Simulation(slice_sd=0.005).slices(seed=3)))
    plain, dearer = (found_in(of) for of in (slices, with_dearer_client(slices, "jemalloc", cost)))
    assert plain.record.covariates
    for lane, steps in plain.adjusted.items():
        for metric in ADJUSTED:
            assert dearer.adjusted[lane][STEP][metric] == pytest.approx(steps[STEP][metric], rel=1e-9)


def test_how_dear_the_client_of_one_start_is_changes_no_adjusted_value() -> None:
    """A and A′ would share what X's client costs in a block, and X what theirs do: an error that A′ - A has not."""
    slices, costs = on_a_host_that_wanders(list(Simulation(slice_sd=0.005).slices(seed=3))), np.random.default_rng(5)
    of_start = {lane: costs.normal(0.0, 0.05) for lane in dict.fromkeys(map(lane_of, slices))}
    dearer = [
        one.model_copy(update={"driver_cpu_s": (one.driver_cpu_s or 0.0) * math.exp(of_start[lane_of(one)])})
        for one in slices
    ]
    plain, found = found_in(slices), found_in(dearer)
    assert plain.record.covariates
    for lane, steps in plain.adjusted.items():
        for metric in ADJUSTED:
            assert found.adjusted[lane][STEP][metric] == pytest.approx(steps[STEP][metric], rel=1e-9)


def test_the_sign_of_a_coefficient_is_that_of_the_hosts_speed() -> None:
    """Work that rises with the load program's CPU time is no slow host."""
    slices = on_a_host_that_wanders(list(Simulation(host=QUIET, slice_sd=0.005).slices(seed=3)))
    backwards = [one.model_copy(update={"driver_cpu_s": (one.queries or 1) ** 2 * 1e-9}) for one in slices]
    assert found_in(backwards).record.coefficients[STEP].get("qps", {}).get("driver_cpu_around", 0.0) == 0.0
