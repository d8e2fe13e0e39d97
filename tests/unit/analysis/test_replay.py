"""The section on a replay: which part was played, and how late its transactions began."""

from __future__ import annotations

from mydyno.analysis.replay import sentence, table
from mydyno.document.parts import Cell
from mydyno.model.definition.experiment import StepSpec
from mydyno.model.stored.records import SliceRecord
from tests.support.fake_script import experiment

SPEC = StepSpec.model_validate({"replay": "/a/monday.capture", "connections": 7, "options": {"speed": 2}})
STEP = experiment(steps=(SPEC,)).resolved_steps[0]


def made(block: int, end_s: float, **more: object) -> SliceRecord:
    plain = {
        "block": block, "step": STEP.id, "cycle": 1, "position": 1, "arm": "old", "started_unix_ns": 1, "length_s": 2.0,
        "transactions": 100, "latency_us": {"mean": 900.0}, "service_us": 700.0,
        "captured": {"begin_s": end_s - 2.5, "end_s": end_s, "length_s": 600.0, "own_lag_p99_us": 80.0},
    }  # fmt: skip
    return SliceRecord.model_validate({**plain, **more})


def test_the_part_that_was_played_is_stated() -> None:
    words = sentence(STEP, [made(1, 10.0), made(1, 40.0), made(2, 30.0)])
    assert words.startswith("monday-7: each block played the first 30 s to 40 s of a capture, at 2 times")
    assert "lasts 10 min" in words


def test_lateness_is_the_mean_of_all_transactions_and_our_own_part_the_worst() -> None:
    slices = [
        made(1, 10.0),
        made(1, 12.5, transactions=300, latency_us={"mean": 1100.0}),
        made(1, 10.0, copy=2, transactions=7),
        made(1, 10.0, arm="new", service_us=None, captured={"begin_s": 7.5, "end_s": 10.0, "length_s": 600.0}),
    ]
    rows = [[cell.text if isinstance(cell, Cell) else cell for cell in row] for row in table(
        STEP.id, slices, ("old", "new", "failed")
    ).rows]  # fmt: skip
    assert rows == [["old", "400", "350\u00a0µs", "80.0\u00a0µs"], ["new", "100", "–", "–"]]
