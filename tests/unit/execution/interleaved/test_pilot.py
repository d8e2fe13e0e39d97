"""What the pilot promises before the first cycle: a precision, and a verdict only where the blocks allow one."""

from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.drivers.held import SliceOrder
from mydyno.execution.interleaved.pilot import COST, THROUGHPUT, PilotPlan, expected_half_widths, words
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.looks import SIX, looks_aimed_at
from mydyno.model.stored.records import SliceRecord
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
    line = words(WIDTHS, PilotPlan(blocks, 4.0, 3, contrasts, looks_aimed_at(blocks) if sequential else None, 2.0))
    assert said in line
    assert ("intervals of" in line) is ("needs" not in line)


def test_a_pilot_without_a_spread_promises_nothing() -> None:
    assert "too few slices" in words({}, PilotPlan(6, 4.0, 3, 1, SIX, 2.0))


@pytest.mark.parametrize(("slice_s", "washout_s", "expected"), [(2, 0.5, (0.3, 1.0)), (0.4, 0.1, (0.1, 0.4))])
async def test_slices_of_the_pilot_are_no_longer_than_those_of_the_study(
    script: Script, paths: HostPaths, tmp_path: Path, slice_s: float, washout_s: float, expected: tuple[float, float]
) -> None:
    found: list[tuple[float, float]] = []

    def qps(_arm: str, _copy: int, _step: Step, order: SliceOrder) -> float:
        if order.id.startswith("pilot/"):
            found.append((order.washout_s, order.measure_s))
        return 1000.0

    script.slice_qps = qps
    design = {"kind": "interleaved", "blocks": 2, "cycles": 1, "slice": slice_s, "washout": washout_s, "quiet_wait": 0}
    await study(script, paths, tmp_path, experiment(design=design))
    assert found == [expected] * 10


async def test_where_memory_is_compared_the_other_arms_get_as_much_load_as_the_pilot(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    loaded_s: dict[tuple[str, int], float] = {}

    def qps(arm: str, copy: int, _step: Step, order: SliceOrder) -> float:
        if order.id.startswith("pilot/"):
            loaded_s[arm, copy] = loaded_s.get((arm, copy), 0.0) + order.washout_s + order.measure_s
        return 1000.0

    script.slice_qps = qps
    design = {"kind": "interleaved", "blocks": 2, "cycles": 1, "quiet_wait": 0}
    asked = experiment(("glibc", "jemalloc"), design=design, verdict={"primary": ("qps", "server_rss_bytes")})
    await study(script, paths, tmp_path, asked)
    assert set(loaded_s) == {("glibc", 1), ("glibc", 2), ("jemalloc", 1)}
    assert len({round(length_s, 6) for length_s in loaded_s.values()}) == 1


def test_what_the_pilot_lets_expect_is_scaled_by_the_measured_seconds() -> None:
    slices = [
        SliceRecord(
            block=1, step="a", cycle=cycle, position=copy, arm="glibc", copy=copy, started_unix_ns=1, length_s=1,
            queries=1000 + 10 * cycle * copy, server_cpu_s=0.5,
        )
        for cycle in range(1, 6)
        for copy in (1, 2)
    ]  # fmt: skip
    width = {
        (slice_s, cycles): expected_half_widths(slices, "glibc", PilotPlan(6, cycles, 3, 1, SIX, slice_s))[THROUGHPUT]
        for slice_s, cycles in ((2.0, 4.0), (1.0, 4.0), (0.4, 4.0), (0.4, 16.0))
    }
    assert width[1.0, 4.0] == pytest.approx(2**0.5 * width[2.0, 4.0], rel=0.01)
    assert width[0.4, 4.0] == pytest.approx(width[1.0, 4.0]), "both with slices as long as the pilot's"
    assert width[0.4, 16.0] == pytest.approx(width[0.4, 4.0] / 2, rel=0.01)


@pytest.mark.parametrize("copy", [1, 2])
async def test_a_control_that_fails_in_the_pilot_is_not_loaded_again(
    script: Script, paths: HostPaths, tmp_path: Path, copy: int
) -> None:
    asked: list[str] = []

    def error(arm: str, copy_number: int, _step: Step, order: SliceOrder) -> str | None:
        if (arm, copy_number) != ("glibc", copy):
            return None
        asked.append(order.id)
        return "every connection was lost" if order.id == "pilot/2" else None

    script.slice_error = error
    design = {"kind": "interleaved", "blocks": 1, "cycles": 2, "quiet_wait": 0}
    _, summary, _ = await study(script, paths, tmp_path, experiment(design=design))
    failures = {(run.arm, run.copy_number): run.failures for run in summary.runs if run.failures}
    assert set(failures) == {("glibc", copy)}
    assert all("every connection was lost" in words for words in failures["glibc", copy].values())
    assert "pilot/3" not in asked


def test_the_pilot_states_no_interval_too_wide_to_plan_from() -> None:
    line = words({"throughput": 0.467, "CPU per query": 0.138}, PilotPlan(6, 4.0, 3, 4, looks_aimed_at(6), 2.0))
    assert "intervals of more than ±20 % of throughput, about ±13.8 % of CPU per query after 6 blocks" in line


def test_the_pilot_says_what_is_not_in_it() -> None:
    plan = PilotPlan(6, 4.0, 3, 4, looks_aimed_at(6), 2.0)
    assert words(WIDTHS, plan).endswith(
        "on this host now; this does not include differences between starts of a server"
    )
