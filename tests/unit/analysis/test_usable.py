"""Which steps of runs count: one rule for everything that reads values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mydyno
from mydyno.analysis import kernel
from mydyno.analysis.base import Examined
from mydyno.analysis.screening import copies_differ
from mydyno.model.stored.counted import KernelTotals
from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.records import SliceRecord
from mydyno.model.stored.summary import RunSummary, used_slices
from mydyno.store.samples import KERNEL_FILE
from tests.support.counted_study import COST, counted_study
from tests.support.fake_script import experiment

STEP, METRIC = "oltp-16", "qps"
CLOSED = Reason(check="steal", text="another machine had the CPU")


def runs() -> list[RunSummary]:
    """Eight blocks of the control's two copies, of which the second has twice the rate."""
    return [
        RunSummary(
            block=block, position=copy, arm="control", copy=copy, valid=True, folder=f"{block}-{copy}",
            values={STEP: {METRIC: copy * (1000.0 + block)}},
        )
        for block in range(8)
        for copy in (1, 2)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "of_second",
    [{"invalid_steps": {STEP: (CLOSED,)}}, {"failures": {STEP: "it ended"}}, {"valid": False, "reasons": (CLOSED,)}],
    ids=["step", "failure", "run"],
)  # fmt: skip
def test_a_copy_that_does_not_count_raises_no_alarm(of_second: dict[str, object]) -> None:
    assert copies_differ(Examined(experiment=experiment(("control", "other")), runs=runs(), alpha=0.05), STEP, METRIC)
    made = [run.model_copy(update=of_second) if run.copy_number == 2 else run for run in runs()]
    assert not any(run.usable(STEP) for run in made if run.copy_number == 2)
    assert not copies_differ(Examined(experiment=experiment(("control", "other")), runs=made, alpha=0.05), STEP, METRIC)


def test_slices_of_runs_that_do_not_count_are_left_out() -> None:
    slices = [
        SliceRecord(
            block=1, step=STEP, cycle=1, position=copy, arm="control", copy=copy, started_unix_ns=1, length_s=1.0
        )
        for copy in (1, 2)
    ]
    second = runs()[3]
    assert second.copy_number == 2
    for made in ([], [runs()[2], second.model_copy(update={"valid": False})]):
        assert [one.copy_number for one in used_slices(slices, made)] == [1] * bool(made)
    assert used_slices(slices, runs()) == slices


def test_slices_of_runs_that_do_not_count_enter_no_cost_of_tracing(tmp_path: Path) -> None:
    totals = KernelTotals(step="s", slices=1, tracer="", transactions=1, loaded_s=1.0)
    made = counted_study(tmp_path, "kernel", lambda *_: totals)
    made.slices[:2] = [one.model_copy(update={"transactions": 9}) for one in made.slices[:2]]
    made.summaries[0] = made.summaries[0].model_copy(update={"valid": False})
    record = kernel.analyse(made.examined(tmp_path, KERNEL_FILE, 0.05))
    assert record is not None and record.throughput_ratio == pytest.approx(COST)


def test_the_rule_exists_once() -> None:
    root = Path(mydyno.__file__).parent
    every = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*.py")}
    spelled = re.compile(r"\bin \w+\.invalid_steps\b(?!\.)")
    assert [name for name, text in every.items() if spelled.search(text)] == ["model/stored/summary.py"]
    beside = re.compile(r"\.valid\b|\.invalid_steps\b|\b(?:study|result)\.slices\b")
    computing = {name for name in every if name.startswith(("analysis/", "results/"))}
    assert {name for name in computing if beside.search(every[name])} == {
        "analysis/gate.py",  # why nothing can be decided
        "analysis/key_values.py", "analysis/memory.py",  # evidence and samples, which are of no step
        "results/families.py", "results/precision.py", "results/values/blocks.py",  # why values are lost
    }  # fmt: skip
