"""kill -9 of mydyno at each failpoint: nothing stays, `clean` removes the rest, `resume` finishes, nothing is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mydyno.store.study_folder import StudyFolder
from tests.support import first_in_gate
from tests.support.patience import wait_until
from tests.support.real import ONE_ARM, SHORT_STEP, Leftovers, Program, experiment_text, finished_files, study_processes

FAILPOINTS = {
    "restore": "run_began,start cp",
    "start": "run_began,start mariadbd",
    "evidence": "run_began,start mariadbd,start mariadbd",
    "warm-up": "run_began,start sysbench",
    "measure": "run_began,start sysbench,load",
    "stop": "run_began,end mariadbd",
    "second run": "run_began,run_began",
}
"""Name → failpoints. The proof starts the server's program under LD_DEBUG; the warm-up lasts one second."""
RUNS = {"start": "--defaults-file=", "evidence": "--no-defaults --version", "warm-up": "sysbench --config-file="}
"""In the command line of what runs at a failpoint, while mydyno itself is stopped."""
PREPARING = "study_created,start sysbench"
"""Data are stored in a new server's tables, of which the template is made."""


def kill_at(program: Program, failpoints: str, *arguments: str, runs: str = "") -> None:
    with program.stopped_at(failpoints, *arguments) as process:
        assert wait_until(lambda: runs in " ".join(study_processes().values())), study_processes()
        process.kill()


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


@pytest.mark.parametrize("failpoint", first_in_gate(sorted(FAILPOINTS, key=lambda failpoint: failpoint != "measure")))
def test_a_study_killed_at_a_failpoint_leaves_no_process_and_can_be_cleaned_and_resumed(
    program: Program, before: Leftovers, failpoint: str
) -> None:
    path = program.write(experiment_text("killed", ONE_ARM, SHORT_STEP))
    kill_at(program, FAILPOINTS[failpoint], "run", path, runs=RUNS.get(failpoint, ""))
    assert wait_until(lambda: not study_processes()), f"outlives its study: {study_processes()}"
    assert program.leftovers().undo_journals, "a killed study cannot have undone its changes"
    if failpoint != "measure":  # there resume itself must clean up
        cleaned = program.run("clean")
        assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
        assert f"to continue: mydyno resume {program.study()}" in cleaned.stdout
        assert program.leftovers() == before
    folder = resumed(program)
    assert program.events().count("study_resumed") == 1
    assert len(list(folder.runs())) == 2


@pytest.mark.exhaustive
def test_a_study_killed_while_it_prepares_data_leaves_no_half_made_template(
    program: Program, before: Leftovers, tmp_path: Path
) -> None:
    program.paths = replace(program.paths, data=tmp_path / "fresh")
    nothing = program.leftovers()
    path = program.write(experiment_text("killed", ONE_ARM, SHORT_STEP))
    kill_at(program, PREPARING, "run", path)
    assert wait_until(lambda: not study_processes()), f"outlives its study: {study_processes()}"
    assert not list(program.paths.data.glob("templates/[!.]*")), "half-made data have the name of whole ones"
    assert program.run("clean").returncode == 0
    assert program.leftovers() == nothing
    resumed(program)
    assert len(list(program.paths.data.glob("templates/[!.]*"))) == 1
    assert program.leftovers() == nothing


@pytest.mark.exhaustive
def test_a_study_killed_twice_keeps_what_each_attempt_finished(program: Program, before: Leftovers) -> None:
    path = program.write(experiment_text("killed", ONE_ARM, SHORT_STEP))
    kill_at(program, FAILPOINTS["second run"], "run", path)
    first = finished_files(program.study())
    assert len([name for name in first if name.endswith("run.json")]) == 1
    kill_at(program, FAILPOINTS["measure"], "resume", str(program.study()))
    assert finished_files(program.study()) == first
    resumed(program)


def test_clean_with_nothing_to_clean_says_so(program: Program, before: Leftovers) -> None:
    cleaned = program.run("clean")
    assert (cleaned.returncode, cleaned.stderr) == (0, "")
    assert "nothing to undo" in cleaned.stdout
