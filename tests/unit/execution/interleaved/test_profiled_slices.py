"""Profiled slices on a fake host: apart from the measured ones, in each block and step, and missing with a reason."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mydyno.drivers.held import SliceOrder
from mydyno.errors import HostError
from mydyno.execution.planning.forecast import forecast
from mydyno.execution.planning.preview import plan_parts
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.plan import Design, make_plan
from mydyno.model.definition.specs import ProfileSpec
from mydyno.model.stored.summary import Summary
from mydyno.store.samples import PROFILED_FILE, RUN_QUEUE, SLICES_FILE, WAITING, Stack, read_slices, read_stacks
from mydyno.store.study_folder import StudyFolder
from mydyno.study import run_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_host import FakeHost
from tests.support.fake_script import Script, experiment
from tests.support.stored_schemas import check

STEP = "oltp_read_only-4"
STACK = ("libc.so.6`clone3", "mysqld`work")


def profiled(cycles: int = 10, blocks: int = 2, **changes: object) -> Experiment:
    design = {"kind": "interleaved", "blocks": blocks, "cycles": cycles, "quiet_wait": 0, **changes}
    return experiment(("glibc", "jemalloc"), design=design, profile=ProfileSpec(cpu=True))


async def study(script: Script, paths: HostPaths, folder: Path, asked: Experiment) -> tuple[StudyFolder, Summary]:
    request = Request(asked, "name = 'fake'", folder / "studies", ("mydyno", "run", "fake"))
    return await run_study(request, paths, Watched(script), opener(script))


def found(_arm: str, _copy: int) -> dict[Stack, int]:
    return {STACK: 100}


@pytest.mark.slow
async def test_profiled_slices_are_apart_from_the_measured_ones(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.stacks = found
    folder, summary = await study(script, paths, tmp_path, profiled())
    check(folder.path, "blocks/*/profiled.jsonl")
    slices = read_slices(folder.block_path(1) / SLICES_FILE)
    apart = read_slices(folder.block_path(1) / PROFILED_FILE)
    assert not any(one.profiled for one in slices)
    assert all(one.profiled for one in apart)
    lanes = {("glibc", 1), ("glibc", 2), ("jemalloc", 1)}
    for step in (STEP, "oltp_read_only-8"):
        of_step = [(one.cycle, one.arm, one.copy_number) for one in apart if one.step == step]
        assert set(of_step) == {(cycle, *lane) for cycle in (1, 9) for lane in lanes}
        assert len(of_step) == 6
    (first, *_) = folder.runs()
    facts = next(one for one in first.cpu_profiles if one.step == STEP)
    assert (facts.slices, facts.samples, facts.profiler, facts.missing) == (2, 200, "fake 1", "")
    assert read_stacks(folder.path / first.folder / facts.file) == {STACK: 200}
    assert summary.profiles is not None
    assert summary.profiles.slices == 2 * 2 * 2 * 3


async def test_the_measured_slices_are_the_same_with_and_without_a_profile(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    plain, _ = await study(script, paths, tmp_path / "plain", profiled().model_copy(update={"profile": ProfileSpec()}))
    script.stacks = found
    with_profile, _ = await study(script, paths, tmp_path / "profiled", profiled())

    def order(folder: StudyFolder) -> list[tuple[object, ...]]:
        slices = read_slices(folder.block_path(1) / SLICES_FILE)
        return [(one.step, one.cycle, one.position, one.arm, one.copy_number, one.queries) for one in slices]

    assert order(plain) == order(with_profile)
    assert not (plain.block_path(1) / PROFILED_FILE).exists()
    assert plain.summary() == plain.summary()
    assert not any(run.cpu_profiles for run in plain.runs())


async def test_a_profiler_runs_in_profiled_slices_alone(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    script.stacks = found
    await study(script, paths, tmp_path, profiled(cycles=1, blocks=1))
    running = False
    for event in script.events:
        running = (running or event.startswith("profile begins")) and not event.startswith("profile ends")
        if event.startswith("slice "):
            assert running == event.startswith("slice profiled/"), event


async def test_a_profile_that_fails_is_missing_with_its_reason_and_the_study_goes_on(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    def broken(arm: str, _copy: int) -> dict[Stack, int]:
        if arm == "jemalloc":
            raise HostError("perf ended with exit code 255")
        return {STACK: 100}

    script.stacks = broken
    folder, summary = await study(script, paths, tmp_path, profiled(cycles=1, blocks=1))
    assert all(run.valid for run in folder.runs())
    (facts,) = {one for run in folder.runs() if run.arm == "jemalloc" for one in run.cpu_profiles if one.step == STEP}
    assert (facts.file, facts.missing) == ("", "perf ended with exit code 255")
    assert summary.profiles is not None
    assert summary.profiles.missing == ("perf ended with exit code 255",)
    assert summary.profiles.contrasts == ()


async def test_the_design_blocks_is_refused_before_anything_starts(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    with pytest.raises(HostError, match="only interleaved studies have profiled slices"):
        await study(script, paths, tmp_path, profiled(kind="blocks"))
    assert not (tmp_path / "studies").exists()


def test_a_host_without_perf_is_not_refused_and_the_plan_states_it(paths: HostPaths, host: FakeHost) -> None:
    host.absent = ["perf"]
    asked = profiled()
    plan = make_plan(asked, Design("interleaved", "all arms can run at the same time"))
    expected = forecast(asked, plan, paths)
    assert not [one for one in expected.obstacles if one.startswith("profile.cpu")]
    (caution,) = [one for one in expected.cautions if one.startswith("profile.cpu")]
    assert "without functions of the server: perf is not installed" in caution


async def test_samples_of_waiting_threads_are_stored_and_stand_for_no_cpu_time(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.profile_method = "proc"
    waiting = ("connection", WAITING, "kernel`io_schedule")
    ready = ("connection", RUN_QUEUE, "kernel`do_poll")
    script.stacks = lambda _arm, _copy: {("connection", "user code"): 100, waiting: 200, ready: 100}
    folder, summary = await study(script, paths, tmp_path, profiled())
    (first, *_) = folder.runs()
    facts = next(one for one in first.cpu_profiles if one.step == STEP)
    assert (facts.method, facts.samples, facts.waiting_samples) == ("proc", 800, 600)
    assert read_stacks(folder.path / first.folder / facts.file)[waiting] == 400
    assert summary.profiles is not None
    assert (summary.profiles.method, summary.profiles.waiting) == ("proc", 0.75)
    contrast = summary.profiles.contrasts[0]
    assert {one.function for one in contrast.frames} == {"connection", "user code"}
    of_control = [
        one for run in folder.runs() if run.arm == "glibc" for one in run.cpu_profiles if one.step == contrast.step
    ]
    per_transaction = [1e6 * one.server_cpu_s / one.transactions for one in of_control]
    assert contrast.control_us == pytest.approx(sum(per_transaction) / len(per_transaction), rel=0.2)


def test_a_plan_states_that_it_profiles(paths: HostPaths) -> None:
    asked = profiled()
    plan = make_plan(asked, Design("interleaved", "all arms can run at the same time"))
    first, *_ = plan_parts(asked, plan, forecast(asked, plan, paths))
    (lines,) = [entry.lines for entry in first if entry.label == "profile"]
    assert "after the first cycle and every 8 cycles from there on" in lines[0]


async def test_a_profile_of_a_slice_that_failed_is_not_used(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    def lost(arm: str, _copy: int, _step: object, order: SliceOrder) -> str | None:
        return "lost" if arm == "jemalloc" and order.id.startswith("profiled/") else None

    script.stacks, script.slice_error = found, lost
    folder, _ = await study(script, paths, tmp_path, profiled(cycles=1, blocks=1))
    (run,) = [one for one in folder.runs() if one.arm == "jemalloc"]
    assert all(facts.samples == 0 for facts in run.cpu_profiles)
    assert all(step.failed for step in run.steps)


async def test_what_is_interrupted_in_a_profiled_slice_does_not_wait_for_the_profile(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    def interrupted(_arm: str, _copy: int, _step: object, order: SliceOrder) -> str | None:
        if order.id.startswith("profiled/"):
            raise asyncio.CancelledError
        return None

    script.stacks, script.slice_error = found, interrupted
    with pytest.raises(asyncio.CancelledError):
        await study(script, paths, tmp_path, profiled(cycles=1, blocks=1))
    assert script.events.count("abandoned") == 1
    assert not [event for event in script.events if event.startswith("profile ends")]
