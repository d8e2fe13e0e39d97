"""What the pilot promises before the first cycle: a precision, and a verdict only where the blocks allow one."""

from __future__ import annotations

from math import exp
from pathlib import Path

import numpy as np
import pytest

from mydyno.drivers.held import SliceOrder
from mydyno.execution.interleaved.order import pilot_plan
from mydyno.execution.interleaved.pilot import COST, PILOT_EVENT, THROUGHPUT, PilotPlan, expected_half_widths, words
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.plan import SIX, interim_aimed_at
from mydyno.model.stored.records import SliceRecord
from mydyno.stats.power import projected_half_width
from mydyno.store.samples import SLICES_FILE, read_slices
from tests.support.fake_script import Script, experiment
from tests.unit.execution.interleaved.test_study import study

WIDTHS = {THROUGHPUT: 0.042, COST: 0.019}


@pytest.mark.parametrize(
    ("blocks", "contrasts", "sequential", "said"),
    [
        (6, 4, True, "intervals of about ±4.2 % of throughput, about ±1.9 % of CPU per query after 6 blocks"),
        (3, 4, True, "with 3 blocks on this host now, but a verdict needs 4 blocks"),
        (3, 1, False, "after 3 blocks"),
        (2, 8, False, "with 2 blocks on this host now, but a verdict needs 3 blocks"),
    ],
)
def test_what_blocks_can_show_is_promised_only_if_they_give_a_verdict(
    blocks: int, contrasts: int, sequential: bool, said: str
) -> None:
    line = words(
        WIDTHS, PilotPlan(blocks, 4.0, 3, of_both(contrasts), interim_aimed_at(blocks) if sequential else None)
    )
    assert said in line
    assert ("intervals of" in line) is ("needs" not in line)


def test_a_pilot_without_a_spread_promises_nothing() -> None:
    assert "too few slices" in words({}, PilotPlan(6, 4.0, 3, of_both(1), SIX))


def of_both(contrasts: int) -> dict[str, int]:
    return {THROUGHPUT: contrasts, COST: contrasts}


def simulated(cycles: int, lanes: int, sd: float, effect: float = 0.0) -> list[SliceRecord]:
    """Slices with a noise of `sd`, drift from cycle to cycle, and arms whose effects are multiples of `effect`."""
    random = np.random.default_rng(7)
    drift = random.normal(0, 0.2, cycles)
    return [
        SliceRecord(
            block=1, step="a", cycle=cycle + 1, position=1, arm=f"arm-{lane}", copy=1, started_unix_ns=1, length_s=1,
            queries=round(1e6 * exp(lane * effect + drift[cycle] + random.normal(0, sd))), server_cpu_s=0.5,
        )
        for cycle in range(cycles)
        for lane in range(lanes)
    ]  # fmt: skip


@pytest.mark.parametrize("effect", [0.0, 0.3])
def test_the_pilot_shows_the_noise_of_slices_and_no_effect_or_drift(effect: float) -> None:
    found = expected_half_widths(simulated(400, 4, 0.05, effect), PilotPlan(6, 4.0, 4, of_both(1), SIX))
    assert found[THROUGHPUT] == pytest.approx(projected_half_width(0.05 * 2**0.5 / 2, 6, 4, 1, 0.036), rel=0.1)
    assert found[COST] == pytest.approx(found[THROUGHPUT], rel=0.01), "the same seconds for a varying number of queries"


def test_the_other_slices_of_a_cycle_that_an_arm_missed_are_used_and_one_cycle_shows_nothing() -> None:
    slices = simulated(6, 3, 0.05)
    failed = [*slices[:-1], slices[-1].model_copy(update={"queries": 0, "failed": "connection lost"})]
    plan = PilotPlan(6, 4.0, 3, of_both(1), SIX)
    assert expected_half_widths(failed, plan) == expected_half_widths(slices[:-1], plan)
    assert expected_half_widths(slices[:3], plan) == {}


@pytest.mark.parametrize(("cycles", "used"), [(8, 5), (3, 3)])
async def test_the_pilot_is_of_the_first_cycles_and_loads_nothing_itself(
    script: Script, paths: HostPaths, tmp_path: Path, cycles: int, used: int
) -> None:
    loaded: list[str] = []

    def qps(_arm: str, _copy: int, _step: Step, order: SliceOrder) -> float:
        loaded.append(order.id)
        return 1000.0 + 7 * len(loaded)

    script.slice_qps = qps
    design = {"kind": "interleaved", "blocks": 2, "cycles": cycles, "quiet_wait": 0}
    asked = experiment(("glibc", "jemalloc"), design=design)
    folder, _, watcher = await study(script, paths, tmp_path, asked)
    (event,) = [one for one in folder.journal.read() if one["event"] == PILOT_EVENT]
    step = folder.plan().blocks[0].step_order[0]
    slices = read_slices(folder.block_path(1) / SLICES_FILE)
    first = [one for one in slices if one.step == step and one.cycle <= used]
    assert event["half_widths"] == expected_half_widths(first, pilot_plan(folder.plan(), asked, float(cycles)))
    assert sum("pilot (the first cycles)" in line for line in watcher.said) == 1
    assert {name for name in loaded if "/" not in name} <= {"warmup"}
    assert len([name for name in loaded if "/" in name]) == 2 * len(slices)


def test_the_pilot_states_a_wide_interval_as_a_factor() -> None:
    line = words({"throughput": 0.467, "CPU per query": 0.138}, PilotPlan(6, 4.0, 3, of_both(4), interim_aimed_at(6)))
    assert "intervals of about a factor of 1.5 of throughput, about ±14 % of CPU per query after 6 blocks" in line


def test_the_pilot_says_what_is_not_in_it() -> None:
    plan = PilotPlan(6, 4.0, 3, of_both(4), interim_aimed_at(6))
    assert words(WIDTHS, plan).endswith("on this host now; this does not include differences between blocks")
