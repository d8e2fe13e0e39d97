"""live.jsonl of whole studies on a fake host, and of one that ends early."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from mydyno.drivers.base import Progress
from mydyno.errors import StudyError
from mydyno.execution.live import LiveWatcher, Remaining
from mydyno.execution.study_record import Request
from mydyno.hosts.identity import ProcessIdentity, boot_id
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.plan import PlannedRun, make_plan
from mydyno.model.stored.live import LiveEnded, LiveOpened, LivePrecision, LiveRecord, LiveRun, LiveSecond
from mydyno.model.stored.records import Evidence
from mydyno.store.logs import LIVE_FILE, read_last_lines
from mydyno.study import resume_study, run_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment
from tests.support.live_records import live_records
from tests.support.patience import Patience
from tests.support.worded import worded


@dataclass
class Patient(Watched):
    """Goes on when the second that is now is in live.jsonl: the fake load takes no time."""

    written: Path = Path()

    def load(self, step: Step, progress: Progress) -> None:
        (path,) = self.written.glob(f"*/{LIVE_FILE}")
        patience = Patience(60)
        while not patience.expired and progress.t_s in (1, step.warmup_s + 1):
            state = "warm-up" if progress.t_s == 1 else "step"
            lines = [line.record for line in read_last_lines(path, 4096)]
            if any(isinstance(one, LiveSecond) and (one.state, one.step) == (state, step.id) for one in lines):
                return
            time.sleep(0.001)


async def test_a_study_leaves_who_wrote_it_its_runs_and_its_end(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.evidence = lambda _run: Evidence(treatment="fake", holds=False, text="the library is not mapped")
    asked = experiment(design={"blocks": 2}, treatments={"jemalloc": {"fake": 1}})
    heard: list[LiveRecord] = []
    request = Request(asked, "", tmp_path, (), listeners=(heard.append,))
    folder, summary = await run_study(request, paths, Watched(script), opener(script))
    found = live_records(folder.path)
    own = ProcessIdentity.of(os.getpid())
    first, last = found[0], found[-1]
    assert isinstance(first, LiveOpened) and isinstance(last, LiveEnded) and own is not None
    assert (first.pid, first.start_ticks, first.boot_id) == (own.pid, own.start_ticks, boot_id())
    assert (last.state, last.answer) == (summary.state, worded(folder).answer)
    runs = [one for one in found if isinstance(one, LiveRun)]
    assert [(one.block, one.arm, one.copy_number) for one in runs] == [
        (run.block, run.arm, run.copy_number) for run in folder.plan().runs
    ]
    invalid = [one for one in runs if not one.valid]
    assert {one.arm for one in invalid} == {"jemalloc"}
    assert all("the library is not mapped" in one.reasons[0].sentence for one in invalid)
    assert heard == found, "listeners receive what the file has"


async def test_the_seconds_show_where_a_study_is(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    script.newest = {"host": {"cpu_user_pct": 40.0, "cpu_system_pct": 10.0, "cpu_steal_pct": 3.0},
              "instance:1": {"innodb_buffer_pool_hit_pct": 99.5, "metrics_of_no_interest": 1.0}}  # fmt: skip
    request = Request(experiment(design={"blocks": 2}), "", tmp_path, live_interval_s=0.01)
    folder, _ = await run_study(request, paths, Patient(script, written=tmp_path), opener(script))
    seconds = [one for one in live_records(folder.path) if isinstance(one, LiveSecond)]
    assert {one.blocks for one in seconds} == {2}
    loaded = [one for one in seconds if one.state == "step"]
    assert loaded, {one.state for one in seconds}
    assert all(one.qps == 1000.0 and one.arm in ("glibc", "jemalloc") and one.step for one in loaded)
    sampled = [one for one in loaded if one.server]
    assert all((one.cpu_busy_pct, one.cpu_steal_pct) == (50.0, 3.0) for one in sampled)
    assert all(one.server == {"innodb_buffer_pool_hit_pct": 99.5} for one in sampled)
    assert all(one.qps is None for one in seconds if one.state in ("starting", "analysing"))


async def test_an_interleaved_study_shows_its_precision_and_no_effect(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    random = iter(range(10_000))
    script.slice_qps = lambda arm, _copy, _step, _order: 1000.0 * (1 + 0.01 * (next(random) * 7919 % 13))
    asked = experiment(design={"kind": "interleaved", "blocks": 4, "cycles": 3})
    folder, _ = await run_study(Request(asked, "", tmp_path), paths, Watched(script), opener(script))
    found = live_records(folder.path)
    precisions = [one for one in found if isinstance(one, LivePrecision)]
    assert [one.made for one in precisions] == [0, 2, 3, 4], "the first cycles, then every block from the second one on"
    assert all(width > 0 for one in precisions for width in one.half_widths.values())
    assert len([one for one in found if isinstance(one, LiveRun)]) == 12


async def test_a_resumed_study_appends_to_the_file(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    def interrupt(planned: PlannedRun) -> None:
        if planned.block == 2:
            raise asyncio.CancelledError

    script.on_run = interrupt
    with pytest.raises(asyncio.CancelledError):
        await run_study(Request(experiment(design={"blocks": 2}), "", tmp_path), paths, Watched(script), opener(script))
    (path,) = tmp_path.glob("fake-*")
    ended = live_records(path)[-1]
    assert isinstance(ended, LiveEnded) and ended.state == "interrupted"
    with (path / LIVE_FILE).open("a") as file:
        file.write('{"record":"second","unix_')  # as a crash leaves it
    script.on_run = lambda _planned: None
    await resume_study(path, paths, Watched(script), opener(script))
    found = live_records(path, damaged=1)  # which swallows no other line
    opened = [one for one in found if isinstance(one, LiveOpened)]
    assert [one.resumed for one in opened] == [False, True]
    assert isinstance(found[-1], LiveEnded) and found[-1].state == "complete"


async def test_a_study_that_fails_says_why(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    script.driver_error = lambda _run, _step: "cannot connect"
    with pytest.raises(StudyError):
        await run_study(Request(experiment(design={"blocks": 8}), "", tmp_path), paths, Watched(script), opener(script))
    (path,) = tmp_path.glob("fake-*")
    ended = live_records(path)[-1]
    assert isinstance(ended, LiveEnded)
    assert ended.state == "failed" and "cannot connect" in ended.text


def test_a_full_disk_does_not_end_the_study(tmp_path: Path, script: Script) -> None:
    with LiveWatcher(Watched(script)) as watcher:
        plan = make_plan(experiment())
        watcher.keep_in(tmp_path / "missing", "fake", plan, resumed=False)
        watcher.say("still there")


def test_the_time_left_is_the_studys_own_or_the_mean_of_what_is_done() -> None:
    now = 100.0
    remaining = Remaining(now=lambda: now)
    assert remaining.left_s() is None
    remaining.begins(3, 8)
    assert remaining.left_s() is None, "nothing has been done since"
    now = 110.0
    remaining.ended()
    remaining.begins(4, 8)
    now = 114.0
    assert remaining.left_s() == pytest.approx(4 * 10.0 - 4.0)
    remaining.begins(4, 8, 60.0)
    now = 120.0
    assert remaining.left_s() == pytest.approx(54.0)
