"""Ctrl-C and SIGTERM: exit code 130, all cleaned up, resumable; a second study at once is refused."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.test_killed import FAILPOINTS, PREPARING, resumed
from tests.support import first_in_gate
from tests.support.real import ONE_ARM, SHORT_STEP, Leftovers, Program, end, experiment_text, interrupt, wait_for


@pytest.mark.parametrize(
    ("failpoint", "signal_number"),
    first_in_gate([("measure", signal.SIGINT), ("start", signal.SIGTERM), ("second run", signal.SIGHUP)]),
)
def test_an_interrupted_study_cleans_up_at_once_and_can_be_resumed(
    program: Program, before: Leftovers, failpoint: str, signal_number: int
) -> None:
    program.prefix = [*program.prefix, "env", "--default-signal=HUP"]  # also where the tests run under nohup
    path = program.write(experiment_text("interrupted", ONE_ARM, SHORT_STEP))
    with program.stopped_at(FAILPOINTS[failpoint], "run", path) as process:
        assert end(process, signal_number) == 130
    assert "interrupted; the host is restored; finished runs are kept; to continue: mydyno" in program.output()
    assert "Traceback" not in program.output()
    assert program.leftovers() == before
    resumed(program)


def test_nohup_protects_a_study_from_the_hang_up_of_its_terminal(program: Program, before: Leftovers) -> None:
    program.prefix = [*program.prefix, "nohup"]
    path = program.write(experiment_text("nohup", ONE_ARM, SHORT_STEP))
    with program.stopped_at(FAILPOINTS["measure"], "run", path) as process:
        assert end(process, signal.SIGHUP) == 0
    assert "interrupted" not in program.output()


def test_ctrl_c_while_data_are_prepared_leaves_nothing(program: Program, before: Leftovers, tmp_path: Path) -> None:
    program.paths = replace(program.paths, data=tmp_path / "fresh")
    nothing = program.leftovers()
    path = program.write(experiment_text("interrupted", ONE_ARM, SHORT_STEP))
    with program.stopped_at(PREPARING, "run", path) as process:
        assert interrupt(process) == 130
    assert program.leftovers() == nothing
    assert not list(program.paths.data.glob("templates/*"))


@pytest.mark.exhaustive
def test_ctrl_c_twice_still_leaves_nothing(program: Program, before: Leftovers) -> None:
    path = program.write(experiment_text("interrupted", ONE_ARM, SHORT_STEP))
    with program.stopped_at(FAILPOINTS["measure"], "run", path) as process:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        assert interrupt(process) == 130
    assert "Traceback" not in program.output()


def test_a_second_study_is_refused_and_told_which_is_first(program: Program, before: Leftovers) -> None:
    # Longer than two refusals take on the busiest host; it is interrupted at the end. Stopped, it could not answer.
    path = program.write(experiment_text("first", ONE_ARM, SHORT_STEP.replace('measure = "1s"', 'measure = "300s"')))
    with program.started("run", path) as process:
        wait_for(lambda: "run_began" in program.events(), process)
        second = replace(program, folder=program.folder / "second")
        second.folder.mkdir()
        refused = second.run("run", path)
        assert refused.returncode == 3
        assert f"another study is running on this host: {program.study().name} (pid {process.pid})" in refused.stderr
        assert not second.studies.exists() or not list(second.studies.iterdir())
        resume = second.run("resume", str(program.study()))
        assert resume.returncode == 3
        assert interrupt(process) == 130
