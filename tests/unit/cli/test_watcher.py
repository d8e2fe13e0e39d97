"""What the terminal prints while a study runs: never an effect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mydyno.cli.streams import set_verbosity
from mydyno.cli.study_runner import ProgressWatcher
from mydyno.execution.interleaved.block import BlockResult
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import StepSpec
from mydyno.model.stored.records import DriverFinding
from mydyno.study import run_study
from tests.support.fake_environment import opener
from tests.support.fake_script import Script, experiment
from tests.support.fake_slices import Simulation


async def test_no_run_of_the_block_design_shows_its_rate(
    script: Script, paths: HostPaths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.qps = lambda *_: 4321.0
    script.findings = lambda _run, step: (
        (DriverFinding(rule="dropped", level="invalid", text="7 %"),) if step.connections == 8 else ()
    )
    asked = experiment(design={"blocks": 1})
    with ProgressWatcher(experiment()) as watcher:
        await run_study(Request(asked, "name = 'fake'", tmp_path / "studies"), paths, watcher, opener(script))
    shown = capsys.readouterr().err
    assert shown.count("block  1 · jemalloc · ") == 1
    assert "oltp_read_only-8 FAILED: it did not keep up" in shown
    assert "4,321" not in shown
    assert "queries" not in shown


def test_a_command_in_a_message_is_never_broken_into_lines(capsys: pytest.CaptureFixture[str]) -> None:
    command = f"mydyno resume studies/{'long-' * 12}20261126T214157Z"
    with ProgressWatcher(experiment()) as watcher:
        watcher.say(f"interrupted; the host is restored; finished runs are kept; to continue: {command}")
    assert capsys.readouterr().err.endswith(f"{command}\n")


def test_a_block_s_line_names_other_programs_and_a_changed_number_of_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    slices = [
        one.model_copy(update={"steal": 0.0, "strangers": share})
        for one, share in zip(Simulation(blocks=1, cycles=1).slices(1), (0.30, 0.34, 0.38), strict=False)
    ]
    with ProgressWatcher(experiment()) as watcher:
        watcher.block_begins(1, 16, None, 4.0)
        watcher.block_ended(1, BlockResult(slices=slices), None)
        watcher.block_begins(2, 26, None, 4.0)
        watcher.block_begins(3, 26, None, 4.0)
        watcher.block_ended(3, BlockResult(slices=[slices[0].model_copy(update={"strangers": 0.01})]), None)
        watcher.block_begins(4, 20, None, 4.0)
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line] == [
        "block  1/16 · 3 slices · other programs 34 %",
        "26 blocks are planned now instead of 16: blocks take less time than expected",
        "block  3/26 · 1 slice",
        "20 blocks are planned now instead of 26: blocks take more time than expected",
    ]


@pytest.mark.parametrize("verbose", [False, True])
def test_on_a_terminal_only_verbose_prints_a_line_for_each_block(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verbose: bool
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    slices = [one.model_copy(update={"strangers": 0.34}) for one in Simulation(blocks=1, cycles=1).slices(1)]
    set_verbosity(verbose)
    with ProgressWatcher(experiment()) as watcher:
        watcher.block_begins(1, 16, 600.0, 4.0)
        watcher.block_ended(1, BlockResult(slices=slices), None)
        watcher.block_begins(2, 16, 560.0, 4.0)
    set_verbosity(verbose=False)
    shown = capsys.readouterr().err
    assert ("3 slices" in shown) is verbose
    assert re.search("6 % · block 2/16 · about 9 min( 20 s)? left · other programs 34 % · steal 8 % · ", shown)


def test_the_share_that_is_done_is_of_the_blocks_that_are_planned_now(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with ProgressWatcher(experiment()) as watcher:
        watcher.block_begins(1, 6, 600.0, 4.0)
        watcher.block_begins(7, 11, 300.0, 4.0)
    assert "55 % · block 7/11 · " in capsys.readouterr().err


def test_on_a_terminal_a_clock_runs_from_the_start_and_what_has_no_cycles_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    (step,) = experiment(steps=(StepSpec.model_validate({"replay": "a.capture", "statements": True}),)).resolved_steps
    with ProgressWatcher(experiment()) as watcher:
        assert re.search("0:00:00.*   0 % · preparing", capsys.readouterr().err)
        watcher.block_begins(1, 6, 600.0, 4.0)
        watcher.slice_begins("slice", step)
    assert f"{step.id} comparison" in capsys.readouterr().err
