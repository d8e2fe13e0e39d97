"""kill -9 and Ctrl-C in the middle of an interleaved block: nothing lives on, `resume` finishes, nothing is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support import first_in_gate
from tests.support.interleaved import interleaved_text, slices_of, summary_of
from tests.support.patience import wait_until
from tests.support.real import TWO_ARMS, Leftovers, Program, interrupt, study_processes

LANES = 3
CYCLES = 4
SLICE_S = 0.2


IN_CYCLE_2 = ",slice" * (LANES + 2)
FAILPOINTS = {
    "servers start": "block_began" + ",start mariadbd" * LANES,
    "first block": "block_began" + IN_CYCLE_2,
    "second block": "block_began,block_began" + IN_CYCLE_2,
}
"""Failpoint → MYDYNO_TEST_STOP_AT."""


def finished_blocks(study: Path) -> dict[str, bytes]:
    """Every file of every finished block."""
    return {
        str(path.relative_to(study)): path.read_bytes() for path in study.glob("blocks/[0-9]*/**/*") if path.is_file()
    }


def resumed(program: Program) -> None:
    """`mydyno resume` finishes the study and leaves what was there untouched."""
    study = program.study()
    finished = finished_blocks(study)
    done = program.run("resume", str(study))
    assert done.returncode == 0, done.stderr
    after = finished_blocks(study)
    assert {name: after[name] for name in finished} == finished
    summary = summary_of(study)
    assert summary["state"] == "complete"
    assert [run["valid"] for run in summary["runs"]] == [True] * 2 * LANES, [run["reasons"] for run in summary["runs"]]
    slices = Counter((one.block, one.cycle) for one in slices_of(study))
    assert slices == {(block, cycle): LANES for block in (1, 2) for cycle in range(1, CYCLES + 1)}
    assert (study / "report.html").exists()
    assert not list(study.rglob(".*")), "something unfinished is left in the study folder"


@pytest.mark.parametrize("failpoint", first_in_gate(FAILPOINTS))
def test_a_study_killed_inside_a_block_is_finished_by_resume(
    program: Program, before: Leftovers, failpoint: str
) -> None:
    text = interleaved_text("killed", TWO_ARMS, [("oltp_read_write", 4)], cycles=CYCLES, slice_s=SLICE_S)
    path = program.write(text)
    with program.stopped_at(FAILPOINTS[failpoint], "run", path) as process:
        process.kill()
    assert wait_until(lambda: not study_processes()), f"outlives its study: {study_processes()}"
    assert len(list(program.study().glob("blocks/[0-9]*"))) == (1 if failpoint == "second block" else 0)
    resumed(program)


@pytest.mark.exhaustive
def test_a_study_interrupted_inside_a_cycle_ends_cleanly_and_is_finished_by_resume(
    program: Program, before: Leftovers
) -> None:
    text = interleaved_text("interrupted", TWO_ARMS, [("oltp_read_only", 4)], cycles=CYCLES, slice_s=SLICE_S)
    path = program.write(text)
    with program.stopped_at(FAILPOINTS["first block"], "run", path) as process:
        assert interrupt(process) == 130
    assert not study_processes()
    assert program.leftovers() == before, "what an interrupted study began is undone at once"
    assert "mydyno resume" in program.output()
    assert "Traceback" not in program.output()
    resumed(program)
