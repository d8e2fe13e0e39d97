"""Which steps of runs count: one rule for everything that reads values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mydyno
from mydyno.analysis.base import Examined
from mydyno.analysis.screening import copies_differ
from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.summary import RunSummary
from tests.support.fake_script import experiment

STEP, METRIC = "oltp-16", "qps"
CLOSED = Reason(gate="steal", text="another machine had the CPU")


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


def test_the_rule_exists_once() -> None:
    root = Path(mydyno.__file__).parent
    spelled = re.compile(r"\bin \w+\.invalid_steps\b(?!\.)")
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if spelled.search(path.read_text())}
    assert found == {"model/stored/summary.py"}
