"""Slices in which the kernel is traced, on a fake host: apart from the measured ones, and missing with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.errors import HostError
from mydyno.execution.planning.forecast import forecast
from mydyno.execution.planning.preview import plan_parts
from mydyno.execution.planning.time_plan import shape_of
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.plan import Design, make_plan
from mydyno.model.definition.specs import ProfileSpec
from mydyno.model.stored.counted import Bucket, KernelEvent, KernelTotals
from mydyno.model.stored.summary import Summary
from mydyno.store.samples import KERNEL_FILE, SLICES_FILE, read_slices, read_totals
from mydyno.store.study_folder import StudyFolder
from mydyno.study import run_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_host import FakeHost
from tests.support.fake_script import Script, experiment
from tests.support.stored_schemas import check

STEP = "oltp_read_only-4"
EVENTS = (
    KernelEvent(measure="futex", count=3, time_us=40.0, histogram=(Bucket(low_us=8, high_us=16, count=3),)),
    KernelEvent(measure="system_calls", count=9),
)


def tracing(cycles: int = 1, blocks: int = 1, **changes: object) -> Experiment:
    design = {"kind": "interleaved", "blocks": blocks, "cycles": cycles, "quiet_wait": 0, **changes}
    profile = ProfileSpec(waits=True, kernel=True)
    return experiment(("glibc", "jemalloc"), design=design, profile=profile)


async def study(script: Script, paths: HostPaths, folder: Path, asked: Experiment) -> tuple[StudyFolder, Summary]:
    request = Request(asked, "name = 'fake'", folder / "studies", ("mydyno", "run", "fake"))
    return await run_study(request, paths, Watched(script), opener(script))


@pytest.fixture(autouse=True)
def _found(script: Script) -> None:
    script.waits = lambda _arm, _copy: {("stage", "stage/sql/Updating"): (10, 500.0)}
    script.kernel = lambda _arm, _copy: EVENTS


@pytest.mark.slow
async def test_the_slices_are_apart_and_their_events_add_up(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    folder, summary = await study(script, paths, tmp_path, tracing(cycles=10))
    check(
        folder.path,
        "blocks/*/kernel.jsonl",
        "blocks/*/*/kernel/*.json",
        "blocks/*/waits.jsonl",
        "blocks/*/*/waits/*.json",
    )
    apart = [one for one in read_slices(folder.block_path(1) / KERNEL_FILE) if one.step == STEP]
    assert [one.cycle for one in apart] == [1, 1, 1, 9, 9, 9]
    assert not any(one.profiled for one in read_slices(folder.block_path(1) / SLICES_FILE))
    (first, *_) = folder.runs()
    facts = next(one for one in first.kernel if one.step == STEP)
    totals = read_totals(folder.path / first.folder / facts.file, KernelTotals)
    assert (totals.slices, totals.tracer, list(totals.absent)) == (2, "bpftrace v0.0", ["block_io"])
    futex, calls = totals.events
    assert (futex.count, futex.time_us, futex.histogram[0].count, calls.count) == (6, 80.0, 6, 18)
    assert summary.kernel is not None
    assert summary.kernel.absent == {"block_io": "the kernel has no tracepoint block:x"}


async def test_the_tracer_runs_in_these_slices_alone(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    await study(script, paths, tmp_path, tracing())
    traced = counted = False
    for event in script.events:
        traced = (traced or event.startswith("tracing begins")) and not event.startswith("tracing ends")
        counted = (counted or event.startswith("counting begins")) and not event.startswith("counting ends")
        if event.startswith("slice "):
            assert (traced, counted) == (event.startswith("slice kernel/"), event.startswith("slice waits/")), event


async def test_a_tracer_that_fails_is_missing_with_the_reason_and_the_study_goes_on(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    def broken(arm: str, _copy: int) -> tuple[KernelEvent, ...]:
        if arm == "jemalloc":
            raise HostError("bpftrace ended with exit code 1: no message")
        return EVENTS

    script.kernel = broken
    folder, summary = await study(script, paths, tmp_path, tracing())
    assert all(run.valid for run in folder.runs())
    assert summary.kernel is not None
    assert summary.kernel.missing == ("bpftrace ended with exit code 1: no message",)
    assert summary.kernel.contrasts == ()


async def test_what_cannot_trace_is_refused_before_anything_starts(
    script: Script, paths: HostPaths, host: FakeHost, tmp_path: Path
) -> None:
    with pytest.raises(HostError, match=r"profile\.kernel: only interleaved studies"):
        await study(script, paths, tmp_path, tracing(kind="blocks"))
    host.absent = ["bpftrace"]
    with pytest.raises(HostError, match=r"profile\.kernel: bpftrace is not installed"):
        await study(script, paths, tmp_path, tracing())
    assert not (tmp_path / "studies").exists()


def test_a_plan_states_the_slices_and_counts_their_time(paths: HostPaths) -> None:
    asked = tracing()
    plan = make_plan(asked, Design("interleaved", "all arms can run at the same time"))
    first, *_ = plan_parts(asked, plan, forecast(asked, plan, paths))
    (lines,) = [entry.lines for entry in first if entry.label == "kernel"]
    assert "by bpftrace" in lines[0]
    waits_alone = asked.model_copy(update={"profile": ProfileSpec(waits=True)})
    assert shape_of(asked).cycle_s > shape_of(waits_alone).cycle_s
