"""Slices in which waits are counted, on a fake host: apart from the measured ones, and missing with a reason."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mydyno.errors import HostError, ServerError
from mydyno.execution.planning.forecast import forecast
from mydyno.execution.planning.preview import plan_parts
from mydyno.execution.planning.time_plan import shape_of
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, ServerSpec
from mydyno.model.definition.plan import Design, make_plan
from mydyno.model.definition.specs import ProfileSpec
from mydyno.model.stored.counted import ROW_LOCKS, EventTotal, WaitTotals
from mydyno.model.stored.summary import Summary
from mydyno.servers.wait_counting import Activity, Counted, Counts, LockUse, SessionSample, grown
from mydyno.store.samples import SLICES_FILE, WAITS_FILE, read_slices, read_totals
from mydyno.store.study_folder import StudyFolder
from mydyno.study import run_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment
from tests.support.fake_server import STARTED_UNIX_NS
from tests.support.stored_schemas import check

STEP = "oltp_read_only-4"
LANES = {("glibc", 1), ("glibc", 2), ("jemalloc", 1)}


def counting(cycles: int = 10, blocks: int = 2, cpu: bool = False, **changes: object) -> Experiment:
    design = {"kind": "interleaved", "blocks": blocks, "cycles": cycles, "quiet_wait": 0, **changes}
    return experiment(("glibc", "jemalloc"), design=design, profile=ProfileSpec(waits=True, cpu=cpu))


async def study(script: Script, paths: HostPaths, folder: Path, asked: Experiment) -> tuple[StudyFolder, Summary]:
    request = Request(asked, "name = 'fake'", folder / "studies", ("mydyno", "run", "fake"))
    return await run_study(request, paths, Watched(script), opener(script))


def found(_arm: str, _copy: int) -> Counts:
    return {("wait", ROW_LOCKS): (3, 12_000.0), ("stage", "stage/sql/Updating"): (10, 500.0)}


async def test_the_slices_are_apart_and_their_counts_add_up(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    script.waits = found
    folder, summary = await study(script, paths, tmp_path, counting())
    check(folder.path, "blocks/*/waits.jsonl", "blocks/*/*/waits/*.json")
    assert not any(one.profiled for one in read_slices(folder.block_path(1) / SLICES_FILE))
    apart = read_slices(folder.block_path(1) / WAITS_FILE)
    of_step = [(one.cycle, one.arm, one.copy_number) for one in apart if one.step == STEP]
    assert set(of_step) == {(cycle, *lane) for cycle in (1, 9) for lane in LANES}
    assert len(of_step) == 6
    (first, *_) = folder.runs()
    facts = next(one for one in first.waits if one.step == STEP)
    totals = read_totals(folder.path / first.folder / facts.file, WaitTotals)
    assert totals.waits == (EventTotal(name=ROW_LOCKS, count=6, time_us=24_000.0),)
    assert (totals.slices, facts.missing) == (2, "")
    assert totals.transactions == sum(
        one.whole["transactions"] for one in apart if (one.step, one.arm, one.copy_number) == (STEP, first.arm, 1)
    )
    assert summary.waits is not None
    assert summary.waits.slices == 2 * 2 * 2 * 3


async def test_sessions_count_in_the_measured_part_alone_and_the_rest_adds_up(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    moments = [max(STARTED_UNIX_NS / 1e9, time.time()) + half_s / 2 for half_s in range(4000)]  # of the fake host

    def sampled(_arm: str, _copy: int) -> Counted:
        activity: Activity = {("active", ""): 3, ("state", "Commit"): 3}
        samples = tuple(SessionSample(at, activity) for at in moments)
        return Counted({}, {"lock": LockUse(2, 10.0, 8.0)}, {"log_writes": 5.0}, samples, {"lost": 1})

    script.waits = sampled
    folder, summary = await study(script, paths, tmp_path, counting(blocks=1))
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


async def test_instruments_are_on_in_these_slices_alone_and_never_in_those_of_a_profile(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.waits, script.stacks = found, lambda _arm, _copy: {("mysqld`work",): 100}
    await study(script, paths, tmp_path, counting(cycles=1, blocks=1, cpu=True))
    on = profiled = False
    for event in script.events:
        on = (on or event.startswith("counting begins")) and not event.startswith("counting ends")
        profiled = (profiled or event.startswith("profile begins")) and not event.startswith("profile ends")
        if event.startswith("slice "):
            assert (on, profiled) == (event.startswith("slice waits/"), event.startswith("slice profiled/")), event


async def test_counts_that_fail_are_missing_with_the_reason_and_the_study_goes_on(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    def broken(arm: str, copy: int) -> Counts:
        if arm == "jemalloc":
            raise ServerError("the server runs with performance_schema off")
        return found(arm, copy)

    script.waits = broken
    folder, summary = await study(script, paths, tmp_path, counting(cycles=1, blocks=1))
    assert all(run.valid for run in folder.runs())
    (facts,) = {one for run in folder.runs() if run.arm == "jemalloc" for one in run.waits if one.step == STEP}
    assert (facts.file, facts.missing) == ("", "the server runs with performance_schema off")
    assert summary.waits is not None
    assert (summary.waits.missing, summary.waits.contrasts) == ((facts.missing,), ())


async def test_what_cannot_count_is_refused_before_anything_starts(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    with pytest.raises(HostError, match=r"profile\.waits: only interleaved studies"):
        await study(script, paths, tmp_path, counting(kind="blocks"))
    old = counting().model_copy(update={"server": ServerSpec(name="mysql-5.5")})
    with pytest.raises(HostError, match=r"profile\.waits: performance_schema of MySQL 5\.5\.9 has no summaries"):
        await study(script, paths, tmp_path, old)
    off = ServerSpec(name="mariadb-10.11", variables={"performance-schema": False})
    with pytest.raises(HostError, match=r"profile\.waits: arm glibc has performance_schema off"):
        await study(script, paths, tmp_path, counting().model_copy(update={"server": off}))
    assert not (tmp_path / "studies").exists()


def test_a_plan_states_the_slices_and_counts_their_time(paths: HostPaths) -> None:
    asked = counting()
    plan = make_plan(asked, Design("interleaved", "all arms can run at the same time"))
    first, *_ = plan_parts(asked, plan, forecast(asked, plan, paths))
    (lines,) = [entry.lines for entry in first if entry.label == "waits"]
    assert "after the first cycle and every 8 cycles from there on" in lines[0]
    plain = asked.model_copy(update={"profile": ProfileSpec()})
    assert shape_of(asked).cycle_s > shape_of(plain).cycle_s


def test_what_went_down_added_nothing() -> None:
    before: Counts = {("statement", "closed"): (9, 90.0), ("wait", "same"): (5, 50.0), ("wait", "more"): (1, 10.0)}
    after: Counts = {("statement", "closed"): (2, 20.0), ("wait", "same"): (5, 50.0), ("wait", "more"): (3, 25.0)}
    assert grown(before, {**after, ("wait", "new"): (1, 2.0)}) == {
        ("wait", "more"): (2, 15.0),
        ("wait", "new"): (1, 2.0),
    }
