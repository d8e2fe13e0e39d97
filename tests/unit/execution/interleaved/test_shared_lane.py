"""A slice beside a guard: ended, made again, and given up; a guard that is a list of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from mydyno.drivers.held import SliceOrder
from mydyno.execution.interleaved.shared_lane import SharedLane
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.plan import PlannedRun
from tests.support.fake_environment import FakeEnvironment
from tests.support.fake_script import Script, experiment

ORDER = SliceOrder("1", 1, 0.1, 1.0)


class Answers:
    """A guard that finds these words in one slice after the other, then nothing; the server is always calm."""

    def __init__(self, *words: str) -> None:
        self._words: Iterator[str] = iter(words)

    async def exceeded(self, ended: asyncio.Event) -> str:
        if words := next(self._words, ""):
            return words
        await ended.wait()
        return ""

    async def calm(self) -> bool:
        return True


async def connected(script: Script, paths: HostPaths, tmp_path: Path, guard: Answers) -> SharedLane:
    undo = UndoJournal.begin(paths.undo, "fake", tmp_path)
    environment = FakeEnvironment(paths, experiment(), undo, script)
    planned = PlannedRun(block=1, position=1, arm="glibc")
    lane = SharedLane(environment, planned, tmp_path, 1, 0)  # type: ignore[arg-type]  # a stand-in
    lane.instances = [environment.instance(tmp_path, tmp_path / "server.log", 1, arm="glibc")]
    await lane.connect(environment.experiment.resolved_steps[0])
    lane.guard = guard  # type: ignore[assignment]  # a stand-in
    return lane


@pytest.mark.parametrize("refused", [0, 1])
async def test_an_ended_slice_is_made_again_also_where_the_load_is_not_connected_at_once(
    paths: HostPaths, tmp_path: Path, refused: int
) -> None:
    script = Script()
    lane = await connected(script, paths, tmp_path, Answers("too slow"))
    left = iter(["Too many connections"] * refused)
    script.hold_error = lambda _arm, _copy: next(left, None)
    step = lane.environment.experiment.resolved_steps[0]
    (part,) = await lane.slice(step, ORDER)
    assert part.record["id"] == "1"
    assert lane.runs_step(step)
    assert len(lane.warnings) == 1 + refused
    assert script.events.count("end glibc") == 1, "of two load programs, one is connected"


async def test_after_three_times_the_arm_has_failed_at_that_step_alone(paths: HostPaths, tmp_path: Path) -> None:
    script = Script()
    lane = await connected(script, paths, tmp_path, Answers("too slow"))
    script.hold_error = lambda _arm, _copy: "Too many connections"
    step, other = lane.environment.experiment.resolved_steps[:2]
    assert await lane.slice(step, ORDER) == []
    assert lane.failed_steps == {
        step.id: "the guard ended its slice 3 times in a row: not connected again: Too many connections"
    }
    assert lane.runs_step(other)
