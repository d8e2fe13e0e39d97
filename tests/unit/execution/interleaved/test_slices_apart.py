"""Slices in which something else is measured, on a fake host: a CPU profile, waits, the kernel's events. They are apart
from the measured ones, in each block and step, and missing with a reason.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from mydyno.drivers.held import SliceOrder
from mydyno.errors import HostError, ServerError
from mydyno.execution.planning.forecast import forecast
from mydyno.execution.planning.preview import plan_parts
from mydyno.execution.planning.time_plan import shape_of
from mydyno.execution.study_record import Request
from mydyno.experiments import load
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, ServerSpec, StepSpec
from mydyno.model.definition.plan import Design, make_plan
from mydyno.model.definition.specs import ProfileSpec
from mydyno.model.stored.counted import ROW_LOCKS, Bucket, EventTotal, KernelEvent, KernelTotals, WaitTotals
from mydyno.model.stored.records import CountFacts, CpuProfile, RunRecord
from mydyno.model.stored.summary import Summary
from mydyno.servers.wait_counting import Activity, Counted, Counts, LockUse, SessionSample, grown
from mydyno.store.samples import (
    KERNEL_FILE,
    PROFILED_FILE,
    RUN_QUEUE,
    SLICES_FILE,
    WAITING,
    WAITS_FILE,
    read_slices,
    read_stacks,
    read_totals,
)
from mydyno.store.study_folder import StudyFolder
from mydyno.study import run_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_host import FakeHost
from tests.support.fake_script import Script, experiment
from tests.support.fake_server import STARTED_UNIX_NS
from tests.support.stored_schemas import check

STEP = "oltp_read_only-4"
LANES = {("glibc", 1), ("glibc", 2), ("jemalloc", 1)}
FOUND: dict[str, tuple[str, Any]] = {
    "cpu": ("stacks", {("libc.so.6`clone3", "mysqld`work"): 100}),
    "waits": ("waits", {("wait", ROW_LOCKS): (3, 12_000.0), ("stage", "stage/sql/Updating"): (10, 500.0)}),
    "kernel": (
        "kernel",
        (
            KernelEvent(measure="futex", count=3, time_us=40.0, histogram=(Bucket(low_us=8, high_us=16, count=3),)),
            KernelEvent(measure="system_calls", count=9),
        ),
    ),
}
"""{key of [profile]: (attribute of the script, what each slice finds)}"""
FILES = {"cpu": PROFILED_FILE, "waits": WAITS_FILE, "kernel": KERNEL_FILE}
RECORDS = {"cpu": "profiles", "waits": "waits", "kernel": "kernel"}
kinds = pytest.mark.parametrize("kind", FOUND)


def asked(*kinds: str, cycles: int = 10, blocks: int = 2, **changes: object) -> Experiment:
    design = {"kind": "interleaved", "blocks": blocks, "cycles": cycles, "quiet_wait": 0, **changes}
    profile = ProfileSpec.model_validate(dict.fromkeys(kinds, True))
    return experiment(("glibc", "jemalloc"), design=design, profile=profile)


async def study(script: Script, paths: HostPaths, folder: Path, asked: Experiment) -> tuple[StudyFolder, Summary]:
    for attribute, found in (FOUND[kind] for kind in asked.profile.kinds):
        if getattr(script, attribute) is None:
            setattr(script, attribute, lambda _arm, _copy, found=found: found)
    request = Request(asked, "name = 'fake'", folder / "studies", ("mydyno", "run", "fake"))
    return await run_study(request, paths, Watched(script), opener(script))


def facts_of(run: RunRecord, kind: str) -> CpuProfile | CountFacts:
    every: tuple[CpuProfile | CountFacts, ...] = run.cpu_profiles if kind == "cpu" else getattr(run, kind)
    return next(one for one in every if one.step == STEP)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind == "waits" else pytest.mark.slow) for kind in FOUND]
)
async def test_the_slices_are_apart_and_what_they_find_adds_up(
    kind: str, script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    folder, summary = await study(script, paths, tmp_path, asked(kind))
    check(folder.path, f"blocks/*/{FILES[kind]}", *([] if kind == "cpu" else [f"blocks/*/*/{kind}/*.json"]))
    apart = read_slices(folder.block_path(1) / FILES[kind])
    assert not any(one.profiled for one in read_slices(folder.block_path(1) / SLICES_FILE))
    assert all(one.profiled for one in apart)
    for step in (STEP, "oltp_read_only-8"):
        of_step = [(one.cycle, one.arm, one.copy_number) for one in apart if one.step == step]
        assert sorted(of_step) == sorted((cycle, *lane) for cycle in (1, 9) for lane in LANES)
    (first, *_) = folder.runs()
    facts = facts_of(first, kind)
    assert (facts.slices, facts.missing) == (2, "")
    assert facts.transactions == sum(
        one.whole["transactions"] for one in apart if (one.step, one.arm, one.copy_number) == (STEP, first.arm, 1)
    )
    path = folder.path / first.folder / facts.file
    if isinstance(facts, CpuProfile):
        assert (facts.samples, facts.profiler) == (200, "fake 1")
        assert read_stacks(path) == {("libc.so.6`clone3", "mysqld`work"): 200}
    elif kind == "waits":
        assert read_totals(path, WaitTotals).waits == (EventTotal(name=ROW_LOCKS, count=6, time_us=24_000.0),)
    else:
        totals = read_totals(path, KernelTotals)
        assert (totals.slices, totals.tracer, list(totals.absent)) == (2, "bpftrace v0.0", ["block_io"])
        futex, calls = totals.events
        assert (futex.count, futex.time_us, futex.histogram[0].count, calls.count) == (6, 80.0, 6, 18)
        assert summary.kernel is not None
        assert summary.kernel.absent == {"block_io": "the kernel has no tracepoint block:x"}
    assert getattr(summary, RECORDS[kind]).slices == 2 * 2 * 2 * 3


async def test_each_tool_runs_in_its_own_slices_alone(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    await study(script, paths, tmp_path, asked(*FOUND, cycles=1, blocks=1))
    tools = {"profile": "profiled", "counting": "waits", "tracing": "kernel"}
    on, seen = dict.fromkeys(tools, False), set()
    for event in script.events:
        for tool in tools:
            on[tool] = (on[tool] or event.startswith(f"{tool} begins")) and not event.startswith(f"{tool} ends")
        if event.startswith("slice "):
            assert on == {tool: event.startswith(f"slice {kind}/") for tool, kind in tools.items()}, event
            seen |= {tool for tool, runs in on.items() if runs}
    assert seen == set(tools)


@kinds
async def test_what_fails_is_missing_with_the_reason_and_the_study_goes_on(
    kind: str, script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    attribute, found = FOUND[kind]

    def broken(arm: str, _copy: int) -> object:
        if arm == "jemalloc":
            raise (ServerError if kind == "waits" else HostError)("it ended with exit code 255")
        return found

    setattr(script, attribute, broken)
    folder, summary = await study(script, paths, tmp_path, asked(kind, cycles=1, blocks=1))
    assert all(run.valid for run in folder.runs())
    (facts,) = {facts_of(run, kind) for run in folder.runs() if run.arm == "jemalloc"}
    assert (facts.file, facts.missing) == ("", "it ended with exit code 255")
    record = getattr(summary, RECORDS[kind])
    assert (record.missing, record.contrasts) == ((facts.missing,), ())


OFF = ServerSpec(name="mariadb-10.11", variables={"performance-schema": False})


@pytest.mark.parametrize(
    ("kind", "changes", "server", "words"),
    [
        ("cpu", {"kind": "blocks"}, None, "only interleaved studies have profiled slices"),
        ("waits", {"kind": "blocks"}, None, r"profile\.waits: only interleaved studies"),
        ("kernel", {"kind": "blocks"}, None, r"profile\.kernel: only interleaved studies"),
        ("kernel", {}, None, r"profile\.kernel: bpftrace is not installed"),
        ("waits", {}, ServerSpec(name="mysql-5.5"), r"profile\.waits: performance_schema of MySQL 5\.5\.9 has no summ"),
        ("waits", {}, OFF, r"profile\.waits: arm glibc has performance_schema off"),
    ],
)
async def test_what_cannot_be_measured_is_refused_before_anything_starts(
    kind: str, changes: dict[str, Any], server: ServerSpec | None, words: str, script: Script, paths: HostPaths,
    host: FakeHost, tmp_path: Path,
) -> None:  # fmt: skip
    host.absent = ["bpftrace"]
    refused = asked(kind, **changes)
    refused = refused.model_copy(update={"server": server}) if server else refused
    with pytest.raises(HostError, match=words):
        await study(script, paths, tmp_path, refused)
    assert not (tmp_path / "studies").exists()


@kinds
def test_a_search_is_refused_which_has_another_load_in_each_slice(kind: str, paths: HostPaths) -> None:
    of, _ = load("capacity", None, (f"profile.{kind}=true",))
    plan = make_plan(of, Design("interleaved", "of a search"))
    (obstacle,) = [one for one in forecast(of, plan, paths).obstacles if one.startswith(f"profile.{kind}")]
    assert "a capacity search has another load in each slice" in obstacle


def test_statements_are_refused_which_have_no_slices(paths: HostPaths) -> None:
    step = StepSpec(workload="replay", replay="shop.capture", statements=True, connections=(1,), warmup=0)
    of = asked("waits").model_copy(update={"steps": (step,)})
    plan = make_plan(of, Design("interleaved", "of statements"))
    (obstacle,) = [one for one in forecast(of, plan, paths).obstacles if one.startswith("profile.waits")]
    assert "there are no slices to profile" in obstacle


@pytest.mark.parametrize(
    ("kind", "label", "words"),
    [
        ("cpu", "profile", "after the first cycle and every 8 cycles from there on"),
        ("waits", "waits", "after the first cycle and every 8 cycles from there on"),
        ("kernel", "kernel", "by bpftrace"),
    ],
)
def test_a_plan_states_the_slices_and_counts_their_time(kind: str, label: str, words: str, paths: HostPaths) -> None:
    of = asked(kind)
    plan = make_plan(of, Design("interleaved", "all arms can run at the same time"))
    first, *_ = plan_parts(of, plan, forecast(of, plan, paths))
    (lines,) = [entry.lines for entry in first if entry.label == label]
    assert words in lines[0]
    assert shape_of(of).cycle_s > shape_of(asked()).cycle_s


async def test_the_measured_slices_are_the_same_with_and_without_a_profile(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    plain, _ = await study(script, paths, tmp_path / "plain", asked())
    with_profile, _ = await study(script, paths, tmp_path / "profiled", asked("cpu"))

    def order(folder: StudyFolder) -> list[tuple[object, ...]]:
        slices = read_slices(folder.block_path(1) / SLICES_FILE)
        return [(one.step, one.cycle, one.position, one.arm, one.copy_number, one.queries) for one in slices]

    assert order(plain) == order(with_profile)
    assert not (plain.block_path(1) / PROFILED_FILE).exists()
    assert plain.summary() == plain.summary()
    assert not any(run.cpu_profiles for run in plain.runs())


def test_a_host_without_perf_is_not_refused_and_the_plan_states_it(paths: HostPaths, host: FakeHost) -> None:
    host.absent = ["perf"]
    of = asked("cpu")
    plan = make_plan(of, Design("interleaved", "all arms can run at the same time"))
    expected = forecast(of, plan, paths)
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
    folder, summary = await study(script, paths, tmp_path, asked("cpu"))
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


async def test_a_profile_of_a_slice_that_failed_is_not_used(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    def lost(arm: str, _copy: int, _step: object, order: SliceOrder) -> str | None:
        return "lost" if arm == "jemalloc" and order.id.startswith("profiled/") else None

    script.slice_error = lost
    folder, _ = await study(script, paths, tmp_path, asked("cpu", cycles=1, blocks=1))
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

    script.slice_error = interrupted
    with pytest.raises(asyncio.CancelledError):
        await study(script, paths, tmp_path, asked("cpu", cycles=1, blocks=1))
    assert script.events.count("abandoned") == 1
    assert not [event for event in script.events if event.startswith("profile ends")]


async def test_sessions_count_in_the_measured_part_alone_and_the_rest_adds_up(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    moments = [max(STARTED_UNIX_NS / 1e9, time.time()) + half_s / 2 for half_s in range(4000)]  # of the fake host

    def sampled(_arm: str, _copy: int) -> Counted:
        activity: Activity = {("active", ""): 3, ("state", "Commit"): 3}
        samples = tuple(SessionSample(at, activity) for at in moments)
        return Counted({}, {"lock": LockUse(2, 10.0, 8.0)}, {"log_writes": 5.0}, samples, {"lost": 1})

    script.waits = sampled
    folder, summary = await study(script, paths, tmp_path, asked("waits", blocks=1))
    apart = [one for one in read_slices(folder.block_path(1) / WAITS_FILE) if one.step == STEP]
    (first, *_) = folder.runs()
    facts = next(one for one in first.waits if one.step == STEP)
    totals = read_totals(folder.path / first.folder / facts.file, WaitTotals)
    own = [one for one in apart if (one.arm, one.copy_number) == (first.arm, first.copy_number)]
    expected = sum(
        one.started_unix_ns / 1e9 <= at <= one.started_unix_ns / 1e9 + one.length_s for one in own for at in moments
    )
    assert totals.samples == expected > 0
    assert {(one.kind, one.count) for one in totals.sessions} == {("active", 3 * expected), ("state", 3 * expected)}
    assert [(one.name, one.instances, one.hottest_us) for one in totals.locks] == [("lock", 2, 16.0)]
    assert [(one.name, one.count) for one in totals.metrics] == [("log_writes", 10.0)]
    assert summary.waits is not None
    assert summary.waits.lost == {"lost": 1}


def test_what_went_down_added_nothing() -> None:
    before: Counts = {("statement", "closed"): (9, 90.0), ("wait", "same"): (5, 50.0), ("wait", "more"): (1, 10.0)}
    after: Counts = {("statement", "closed"): (2, 20.0), ("wait", "same"): (5, 50.0), ("wait", "more"): (3, 25.0)}
    assert grown(before, {**after, ("wait", "new"): (1, 2.0)}) == {
        ("wait", "more"): (2, 15.0),
        ("wait", "new"): (1, 2.0),
    }
