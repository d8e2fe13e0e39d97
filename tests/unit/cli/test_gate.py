"""`mydyno gate` by real processes: mistakes are found before anything starts, and every exit code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mydyno.store.logs import LIVE_FILE
from tests.support.fake_study_folder import Shape, build
from tests.unit.cli.test_command_line import mydyno
from tests.unit.web.test_live_status import opened, written

SMALL = Shape(arms=("glibc", "jemalloc"), workloads=("oltp_read_only",), connections=(16,), warmup_s=1, measure_s=3)
FINE = "qps=no worse than -50%"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    build(folder / "whole", Shape(**{**SMALL.__dict__, "blocks": 8}))
    build(folder / "part", Shape(**{**SMALL.__dict__, "blocks": 8, "finished_runs": 7}))
    return folder


@pytest.fixture
def studies(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "studies")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("whole",), "declares no threshold"),
        (("whol", "--threshold", FINE), "did you mean 'whole'?"),
        (("alocators", "--threshold", FINE), "did you mean 'allocators'?"),
        (("allocators",), "allocators declares no threshold; nothing was started"),
        (
            ("allocators", "--set", "thresholds.qsp=no worse than -2%"),
            "--set thresholds.qsp=no worse than -2%: thresholds.qsp: unknown",
        ),
        (("whole", "--threshold", "p99=no worse than 5%"), "did you mean 'latency_p99_us'?"),
        (("whole", "--threshold", f"{FINE} for glibc"), "this one is the control"),
        (("whole", "--threshold", FINE, "--junit", "nowhere/gate.xml"), "there is no folder nowhere"),
        (("whole", "--threshold", FINE, "--markdown", "studies"), "--markdown studies: is a folder"),
        (("whole", "--threshold", FINE, "--time", "1h"), "--time: whole is a study, which has been run already"),
        (("whole", "--base", "a", "--head", "b"), "--base, --head: whole is a study, which has been run already"),
        (("allocators", "--base", "a"), "--head: missing: --base and --head belong together"),
        (("allocators", "--base", "a", "--head", "b"), "the control glibc of allocators is not built from a git"),
        ((), "STUDY|EXPERIMENT"),
    ],
)
def test_mistakes_are_found_before_anything_starts(studies: Path, arguments: tuple[str, ...], words: str) -> None:
    done = mydyno(studies, "gate", *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr
    assert done.stdout == ""


def test_the_plan_shows_the_thresholds_and_what_the_blocks_can_not_show(tmp_path: Path) -> None:
    settings = (
        "--set",
        "thresholds.qps=no worse than 2% for jemalloc",
        "--set",
        "server.variables.innodb_buffer_pool_size=64M",
    )
    planned = mydyno(tmp_path, "plan", "allocators", *settings, "--blocks", "4")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert "gate      qps: no worse than -2% for jemalloc\n" in planned.stdout
    assert "note      the gate cannot pass with 4 blocks: 6 are needed\n" in planned.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "limit", "code", "words"),
    [
        ("whole", "no worse than -50%", 0, "allocators: passed\nDoes "),
        ("part", "no worse than -50%", 5, "allocators: undecided\nDoes "),
    ],
)
def test_the_exit_code_and_the_answer(studies: Path, study: str, limit: str, code: int, words: str) -> None:
    done = mydyno(studies, "gate", study, "--threshold", f"qps={limit}", "--junit", "gate.xml", "--json", "gate.json")
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.startswith(words)
    assert f"report: studies/{study}/report.html" in done.stdout
    assert (studies / "gate.xml").is_file() and (studies / "gate.json").is_file()


def test_a_study_that_runs_is_not_interrupted(studies: Path) -> None:
    written(studies / "studies/part", opened())
    with (studies / "studies/part" / LIVE_FILE).open("ab"):
        gate = mydyno(studies, "gate", "part", "--threshold", FINE)
        report = mydyno(studies, "report", "part")
    assert (gate.returncode, report.returncode) == (5, 0)
    assert "The study is not finished: 3 of 8 blocks are." in gate.stdout
    for done in (gate, report):
        assert "the study is running, and continues without `mydyno resume part`" in done.stderr
    ended = mydyno(studies, "gate", "part", "--threshold", FINE)
    assert "The study is interrupted: 3 of 8 blocks are finished." in ended.stdout


def test_a_study_that_has_been_run_can_be_given_by_its_path(studies: Path) -> None:
    done = mydyno(studies, "gate", str(studies / "studies/whole"), "--threshold", "latency_p99_us=no worse than 900%")
    assert done.returncode == 0
    assert "did not declare them" in done.stdout
