"""kill -9 of mydyno at each stage: nothing lives on, `clean` removes the rest, `resume` finishes, nothing is lost."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mydyno.store.study_folder import StudyFolder
from tests.support.real import (
    ONE_ARM,
    SHORT_STEP,
    Leftovers,
    Program,
    experiment_text,
    finished_files,
    study_processes,
    wait_for,
    wait_until,
)

Stage = Callable[[Program], bool]


def text_in(program: Program, pattern: str, words: str) -> bool:
    return any(words in path.read_text(errors="replace") for path in program.studies.glob(pattern))


def proves(program: Program) -> bool:
    """Whether the dynamic linker is being asked for its bindings just now."""
    for pid in study_processes():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if b"LD_DEBUG=bindings" in environment:
            return True
    return False


def exists(program: Program, pattern: str) -> bool:
    return any(True for _ in program.paths.data.glob(pattern))


STAGES: dict[str, Stage] = {
    "restore": lambda program: exists(program, "runs/*-*/run/data"),
    "start": lambda program: exists(program, "runs/*-*/run/my.cnf"),
    "evidence": proves,
    "warm-up": lambda program: text_in(program, "*/blocks/01/.*/driver.log", "Threads started!"),
    "measure": lambda program: text_in(program, "*/blocks/01/.*/driver.log", "Checkpoint report"),
    "stop": lambda program: text_in(program, "*/blocks/01/.*/server.log", "Normal shutdown"),
    "second run": lambda program: program.events().count("run_began") == 2,
}
"""Stage → how it is seen from outside that the study is in it."""


def kill_at(program: Program, stage: Stage, *arguments: str) -> subprocess.Popen[bytes]:
    with program.started(*arguments) as process:
        wait_for(lambda: stage(program), process)
        process.send_signal(signal.SIGKILL)
        process.wait()
    return process


def resumed(program: Program) -> StudyFolder:
    """The study after `mydyno resume`, which must have finished it without touching what was there."""
    study = program.study()
    finished = finished_files(study)
    done = program.run("resume", str(study))
    assert done.returncode == 0, done.stderr
    after = finished_files(study)
    assert {name: after[name] for name in finished} == finished
    folder = StudyFolder.open(study)
    summary = json.loads((study / "summary.json").read_text())
    assert summary["state"] == "complete"
    assert [run["valid"] for run in summary["runs"]] == [True, True], [run["reasons"] for run in summary["runs"]]
    assert not list(study.rglob(".*")), "something unfinished is left in the study folder"
    return folder


@pytest.mark.parametrize("stage", STAGES)
def test_a_study_killed_at_a_stage_leaves_no_process_and_can_be_cleaned_and_resumed(
    program: Program, before: Leftovers, stage: str
) -> None:
    path = program.write(experiment_text("killed", ONE_ARM, SHORT_STEP))
    kill_at(program, STAGES[stage], "run", path)
    assert wait_until(lambda: not study_processes()), f"outlives its study: {study_processes()}"
    assert program.leftovers().undo_journals, "a killed study cannot have undone its changes"
    if stage != "measure":  # there resume itself must clean up
        cleaned = program.run("clean")
        assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
        assert f"to continue: mydyno resume {program.study()}" in cleaned.stdout
        assert program.leftovers() == before
    folder = resumed(program)
    assert program.events().count("study_resumed") == 1
    assert len(list(folder.runs())) == 2


def test_a_study_killed_while_it_prepares_data_leaves_no_half_made_template(
    program: Program, before: Leftovers, tmp_path: Path
) -> None:
    program.paths = replace(program.paths, data=tmp_path / "fresh")
    nothing = program.leftovers()
    path = program.write(experiment_text("killed", ONE_ARM, SHORT_STEP))
    kill_at(program, lambda program: exists(program, "templates/.*/data/mysql"), "run", path)
    assert wait_until(lambda: not study_processes()), f"outlives its study: {study_processes()}"
    assert not list(program.paths.data.glob("templates/[!.]*")), "half-made data have the name of whole ones"
    assert program.run("clean").returncode == 0
    assert program.leftovers() == nothing
    resumed(program)
    assert len(list(program.paths.data.glob("templates/[!.]*"))) == 1
    assert program.leftovers() == nothing


def test_a_study_killed_twice_keeps_what_each_attempt_finished(program: Program, before: Leftovers) -> None:
    path = program.write(experiment_text("killed", ONE_ARM, SHORT_STEP))
    kill_at(program, STAGES["second run"], "run", path)
    first = finished_files(program.study())
    assert len([name for name in first if name.endswith("run.json")]) == 1
    kill_at(program, STAGES["measure"], "resume", str(program.study()))
    assert finished_files(program.study()) == first
    resumed(program)


def test_clean_with_nothing_to_clean_says_so(program: Program, before: Leftovers) -> None:
    cleaned = program.run("clean")
    assert (cleaned.returncode, cleaned.stderr) == (0, "")
    assert "nothing to undo" in cleaned.stdout
