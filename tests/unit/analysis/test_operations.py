"""Times by the names of transactions: what differs between arms is found, the rest is not, and all of it is shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mydyno.analysis.base import Examined
from mydyno.analysis.operations import analyse, lines, markdown, part, sentence
from mydyno.document.result import StudyResult
from mydyno.model.stored.operations import OperationsRecord
from mydyno.model.stored.records import RunRecord
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_interleaved_folder import Interleaved, build

MEANS_US = {"payment": 2000.0, "look": 150.0, "stock level": 9000.0}
COUNTS = {"payment": 430.0, "look": 40.0, "stock level": 30.0}


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    return build(tmp_path / "study", Interleaved(planted={"old": (0.0, 0.0), "new": (0.0, 0.0)}))


def counted(folder: StudyFolder, slower: float) -> list[RunRecord]:
    """The study's runs with times of three transactions, of which the arm new has one that takes longer."""
    random = np.random.default_rng(3)
    found = []
    for run in folder.runs():
        types = {
            name: {"count": COUNTS[name],
                   "mean_us": us * (slower if (run.arm, name) == ("new", "payment") else 1) * random.normal(1, 0.01)}
            for name, us in MEANS_US.items()
        }  # fmt: skip
        steps = tuple(
            step.model_copy(
                update={"driver": step.driver.model_copy(update={"transactions": 500, "transaction_types": types})}
            )
            for step in run.steps
        )
        found.append(run.model_copy(update={"steps": steps}))
    return found


def examined(folder: StudyFolder, slower: float = 1.2, due: bool = True, blocks: int = 6) -> OperationsRecord | None:
    summary = folder.summary()
    assert summary is not None
    records = [run for run in counted(folder, slower) if run.block <= blocks]
    return analyse(
        Examined(experiment=folder.study().experiment, runs=summary.runs, records=records, alpha=0.036,
                 alpha_of_causes=0.018 if due else None, due=due)
    )  # fmt: skip


def test_a_transaction_that_takes_longer_is_named_and_no_other(folder: StudyFolder) -> None:
    record = examined(folder)
    assert record is not None
    assert [one.name for one in record.effects if one.beyond_noise] == ["payment"] * len(
        folder.study().experiment.steps
    )
    (first, *_) = (one for one in record.effects if one.name == "payment")
    assert first.ci_low is not None and first.ci_high is not None
    assert first.ci_low < 1.2 < first.ci_high < 1.3
    assert first.control_us == pytest.approx(2000, rel=0.02)
    assert (first.control_count, first.arm_count) == pytest.approx((0.86, 0.86)), "per transaction"
    result = StudyResult.load(folder)
    assert sentence(result, record).startswith("Times that changed: payment with new")
    equal = examined(folder, slower=1.0)
    assert equal is not None
    assert sentence(result, equal) == "No time is shown to differ."


def test_nothing_is_claimed_before_a_look_or_of_two_blocks(folder: StudyFolder) -> None:
    early = examined(folder, due=False)
    assert early is not None
    assert not any(one.beyond_noise for one in early.effects)
    assert examined(folder, blocks=2) is None


def test_the_section_has_a_row_for_each_name_with_times_and_shares(folder: StudyFolder) -> None:
    summary = folder.summary()
    assert summary is not None
    folder.write_summary(summary.model_copy(update={"operations": examined(folder)}))
    result = StudyResult.load(folder)
    (line,) = lines(result)
    assert line.startswith("Times that changed: payment with new")
    assert markdown(result).count("| payment |") == len(folder.study().experiment.steps)
    section = part(result)
    assert section is not None
    assert "payment with new" in section.says
    for text in ("payment", "look", "stock level", "ms", "0.86", "Bold: the interval excludes no change"):
        assert text in section.html, text
    folder.write_summary(summary)
    assert part(StudyResult.load(folder)) is None
