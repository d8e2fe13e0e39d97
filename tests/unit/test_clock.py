"""A wall clock that is set while a study runs: samples, steps and slices still fit together, and the runs say so."""

from __future__ import annotations

import json
import time
from pathlib import Path

import duckdb
import pytest

from mydyno import clock
from mydyno.drivers.held import measure_unix_ns, readings_of
from mydyno.execution.environments.probe import FarSamples, read_samples
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.records import DriverResult, StepRecord
from mydyno.store.samples import Sample, write_samples
from mydyno.study import run_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment

S = 10**9


class WallClock:
    """The wall clock of this process, which a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_s = 0.0
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() + round(self.ahead_s * S))


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    return WallClock(monkeypatch)


@pytest.mark.parametrize("step_s", [-30.0, 30.0, 86_400.0])
def test_a_step_of_the_wall_clock_moves_no_time_and_is_named(wall: WallClock, step_s: float) -> None:
    offset_ns, before = clock.wall_offset_ns(), clock.unix_ns()
    wall.ahead_s = step_s
    assert before <= clock.unix_ns() < before + 10 * S
    (words,) = clock.step_words(offset_ns)
    assert words.startswith(f"the wall clock was set by {step_s:+.1f} s meanwhile".replace("-", "−"))


@pytest.mark.parametrize("step_s", [0.0, 0.05, -0.05])
def test_what_two_readings_lie_apart_is_no_step(wall: WallClock, step_s: float) -> None:
    offset_ns = clock.wall_offset_ns()
    wall.ahead_s = step_s
    assert clock.step_words(offset_ns) == []


@pytest.mark.parametrize("step_s", [-30, 30])
def test_every_sample_of_a_step_is_placed_although_the_wall_clock_was_set(tmp_path: Path, step_s: int) -> None:
    """The probe and the load program report both clocks; the wall clock is set after five of ten seconds."""
    began = time.monotonic_ns()
    lines = [
        {"record": "sample", "unix_ns": began + (second + step_s * (second > 5)) * S + 1, "monotonic_ns": at,
         "metrics": {"host": {"cpu_user_pct": second}}}
        for second in range(1, 11)
        for at in [began + second * S]
    ]  # fmt: skip
    (tmp_path / "probe.jsonl").write_text("\n".join(map(json.dumps, lines)))
    final = {"measure_unix_s": began / S + step_s, "measure_monotonic_s": began / S}
    started_unix_ns = measure_unix_ns(final)
    counts = {"errors": 0, "ignored_errors": 0, "reconnects": 0}
    intervals = [{"t_s": at, "length_s": 1.0, "qps": 1.0, "tps": 1.0, "counts": counts} for at in range(10)]
    readings = [one for record in intervals for one in readings_of(record, started_unix_ns, 0.0)]
    driver = DriverResult(driver="dynoload", version="1", command=(), transactions=1, queries=1, duration_s=10.0)
    step = StepRecord(id="s", workload="w", connections=1, started_unix_ns=started_unix_ns - S // 1000, warmup_s=0.0,
                      measure_s=10.0, driver=driver)  # fmt: skip
    samples = read_samples(tmp_path / "probe.jsonl")[0]
    samples += [Sample(one.unix_ns, "driver:1", one.metric, one.value) for one in readings]
    write_samples(tmp_path / "samples.parquet", samples, started_unix_ns, [step])
    table = duckdb.read_parquet(str(tmp_path / "samples.parquet")).fetchnumpy()
    assert set(table["step"]) == {"s"}
    of_host = [t_s for t_s, scope in zip(table["step_t_s"], table["scope"], strict=True) if scope == "host"]
    assert of_host == pytest.approx(range(1, 11), abs=0.01)


@pytest.mark.parametrize("step_s", [-30.0, 30.0])
def test_a_wall_clock_that_is_set_moves_no_sample_of_another_host(wall: WallClock, step_s: float) -> None:
    """That host has been up for a week longer."""
    far = FarSamples(lambda scope, _: scope)

    def arrives() -> int:
        at_ns = time.monotonic_ns() + 7 * 86_400 * S
        far.take(json.dumps({"record": "sample", "monotonic_ns": at_ns, "metrics": {"host": {"x": 1.0}}}))
        return at_ns

    first_ns = arrives()
    wall.ahead_s = step_s
    last_ns = arrives()
    ours = [one.unix_ns for one in far.ours()]
    assert ours[1] - ours[0] == last_ns - first_ns
    assert abs(ours[0] - clock.unix_ns()) < 5 * S


@pytest.mark.parametrize(
    "design", [{"blocks": 1}, {"kind": "interleaved", "blocks": 1, "cycles": 4, "quiet_wait": 0}], ids=str
)
async def test_the_runs_of_a_study_say_that_the_clock_was_set(
    script: Script, paths: HostPaths, tmp_path: Path, wall: WallClock, design: dict[str, object]
) -> None:
    asked: Experiment = experiment(design=design)

    def set_back(*_: object) -> float:
        wall.ahead_s = -30.0
        return 1000.0

    script.qps = script.slice_qps = set_back
    request = Request(asked, "name = 'fake'", tmp_path / "studies", ("mydyno", "run", "fake"))
    watcher = Watched(script)
    folder, summary = await run_study(request, paths, watcher, opener(script))
    said = [run for run in summary.runs if any("was set by −30.0 s" in words for words in run.warnings)]
    # With runs that follow each other, the clock was set in the first.
    assert len(said) == (1 if design.get("kind") is None else len(summary.runs))
    assert [line for line in watcher.said if "was set by −30.0 s" in line]
    assert all(record.ended_unix_ns >= record.started_unix_ns for record in folder.runs())
