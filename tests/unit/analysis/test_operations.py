"""Times by the names of transactions: what differs between arms is found, the rest is not, and all of it is shown; the
same of the statements of a capture, with their rows and errors.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mydyno.analysis.base import Examined
from mydyno.analysis.operations import analyse, lines, part, sentence
from mydyno.document.printers import of_pieces
from mydyno.document.result import StudyResult
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.stored.analyses import OperationsRecord
from mydyno.model.stored.records import RunRecord
from mydyno.store.study_folder import StudyFolder
from mydyno.study import run_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_interleaved_folder import Interleaved, build
from tests.support.fake_script import Script, experiment
from tests.support.worded import worded

MEANS_US = {"payment": 2000.0, "look": 150.0, "stock level": 9000.0}
COUNTS = {"payment": 430.0, "look": 40.0, "stock level": 30.0}


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    return build(tmp_path / "study", Interleaved(planted={"old": (0.0, 0.0), "new": (0.0, 0.0)}))


Change = Callable[[str, str, dict[str, float]], dict[str, float]]


def counted(folder: StudyFolder, slower: float, other: Change) -> list[RunRecord]:
    """The study's runs with times of three transactions, of which the arm new has one that takes longer."""
    random = np.random.default_rng(3)
    found = []
    for run in folder.runs():
        types = {
            name: other(run.arm, name, {
                "count": COUNTS[name],
                "mean_us": us * (slower if (run.arm, name) == ("new", "payment") else 1) * random.normal(1, 0.01),
            })
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


def examined(
    folder: StudyFolder,
    slower: float = 1.2,
    due: bool = True,
    blocks: int = 6,
    other: Change = lambda _arm, _name, one: one,
) -> OperationsRecord | None:
    summary = folder.summary()
    assert summary is not None
    records = [run for run in counted(folder, slower, other) if run.block <= blocks]
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
    assert sentence(result.summary, record).startswith("Times that changed, of 3 by name: payment with new")
    equal = examined(folder, slower=1.0)
    assert equal is not None
    assert sentence(result.summary, equal) == "No time of 3 by name is shown to differ."


def test_how_often_it_ends_its_errors_and_its_rows_have_intervals_too(folder: StudyFolder) -> None:
    random = np.random.default_rng(4)

    def other(arm: str, name: str, one: dict[str, float]) -> dict[str, float]:
        new = arm == "new"
        count = round(100 * one["count"] * random.normal(1, 0.003) * (1.2 if new and name == "look" else 1))
        errors = round(count * (0.03 if new and name == "payment" else 0.01) * random.normal(1, 0.05))
        rows = count * (30.0 if new and name == "stock level" else 20.0) * random.normal(1, 0.01)
        return {**one, "count": count, "errors": errors, "rows": rows, "least_rows": 0, "most_rows": 99}

    record = examined(folder, slower=1.0, other=other)
    assert record is not None
    first = {one.name: one for one in reversed(record.effects)}
    assert not any(one.beyond_noise for one in record.effects)
    claimed = {
        (name, kind)
        for name, one in first.items()
        for kind, change in {"count": one.count, "success": one.success, "rows": one.rows}.items()
        if change is not None and change.beyond_noise
    }
    assert claimed == {("look", "count"), ("payment", "success"), ("stock level", "rows")}
    for name, kind, ratio in (
        ("look", "count", 1.2),
        ("payment", "success", 0.97 / 0.99),
        ("stock level", "rows", 1.5),
    ):
        change = getattr(first[name], kind)
        assert change.ci_low < ratio < change.ci_high
    summary = folder.summary()
    assert summary is not None
    folder.write_summary(summary.model_copy(update={"operations": record}))
    result = StudyResult.load(folder)
    (said,) = lines(result)
    for words in ("No time of 3 by name is shown to differ. ", "Executions per transaction that changed: look with new",
                  "Errors that changed: payment with new", "Rows that changed: stock level with new"):  # fmt: skip
        assert words in said
    assert "Rows that differ" not in said, "they vary"
    section = part(result)
    assert section is not None
    for text in ("per transaction", "new 9.6 × (+19.2 … ", "new 30.1 (+47.0 … ", "new 2.9 % (2.6 % … "):
        assert text in section.html.replace("\u202f", " ").replace("\u00a0", " "), text


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
    first, *changed = lines(result)
    assert first == f"Times that changed, of 3 by name: {len(result.steps)}."
    assert all(line.startswith("payment with new") for line in changed)
    section = part(result)
    assert section is not None
    assert "".join(of_pieces(section.pieces)).count("| payment |") == len(folder.study().experiment.steps)
    assert "payment with new" in section.says
    for text in ("payment", "look", "stock level", "ms", "0.86", "Bold: the interval excludes no change"):
        assert text in section.html, text
    folder.write_summary(summary)
    assert part(StudyResult.load(folder)) is None


LONG = "SELECT first_column, second_column, third_column FROM sale JOIN item ON sale.item = item.id WHERE item.id = ?"
LABEL = "SELECT … FROM sale JOIN item ON sale.item = item.id WHERE i…"
ADD = "INSERT INTO item VALUES (?+)"
DIGESTS = [
    {"name": LABEL, "digest": "cb426e190d0bf6cb", "text": LONG},
    {"name": ADD, "digest": "be047f6542bfe2e9", "text": ADD},
    {"name": "other (2 digests)"},
]


async def replay(script: Script, paths: HostPaths, studies: Path, slower: float, rows: int) -> StudyFolder:
    """A study whose slices replay three digests: with the arm jemalloc one is slower and has other rows."""
    random = np.random.default_rng(5)

    def replayed(arm: str) -> dict[str, Any]:
        changed = arm == "jemalloc"
        mean_us = 900.0 * random.normal(1, 0.01) * (slower if changed else 1.0)
        each = rows if changed else 1
        return {
            "digests": DIGESTS,
            "named": {
                LABEL: {"count": 80, "mean_us": mean_us, "rows": {"sum": 80 * each, "least": each, "most": each}},
                ADD: {"count": 0, "errors": 9},
                "other (2 digests)": {"count": 30, "mean_us": 50.0 * random.normal(1, 0.01), "errors": 2 * changed,
                                      "rows": {"sum": 90, "least": 0, "most": 9 + changed}},
            },
        }  # fmt: skip

    script.replayed = replayed
    design = {"kind": "interleaved", "blocks": 6, "cycles": 4, "quiet_wait": 0, "slice": 2, "washout": 0.5}
    steps = ({"workload": "oltp_read_only", "connections": 4, "warmup": 2, "measure": 20},)
    request = Request(experiment(design=design, steps=steps), "", studies, ("mydyno",))
    folder, _ = await run_study(request, paths, Watched(script), opener(script))
    return folder


async def test_a_replay_has_times_rows_and_errors_of_each_digest(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    result = StudyResult.load(await replay(script, paths, tmp_path, slower=1.3, rows=2))
    record = result.summary.operations
    assert record is not None
    assert {one.name: one.text for one in record.digests[result.steps[0].id]} == {LABEL: LONG, ADD: ADD}
    slow, failed, other = (next(one for one in record.effects if one.name == name)
                           for name in (LABEL, ADD, "other (2 digests)"))  # fmt: skip
    assert slow.ci_low is not None and slow.ci_high is not None
    assert slow.ci_low < 1.3 < slow.ci_high
    assert (slow.beyond_noise, slow.rows_exact, slow.control_rows, slow.arm_rows) == (True, True, 1.0, 2.0)
    assert (failed.ratio, failed.control_errors, failed.arm_errors, failed.arm_rows) == (None, 1.0, 1.0, None)
    assert (other.rows_exact, other.control_rows, other.arm_errors) == (False, 3.0, 2 / 32), "rows that vary"
    changed, rows = lines(result)[0].split(" Rows that differ: ")
    assert changed.startswith(f"Times that changed, of 3 by name: {LABEL} with jemalloc +3")
    assert rows == f"{LABEL} has 2 with jemalloc, 1 with glibc."
    section = part(result)
    assert section is not None
    for text in (f"<summary>{LABEL}</summary><code>{LONG}</code>", "digest cb426e190d0bf6cb", "jemalloc 2<", "100"):
        assert text in section.html.replace("\u202f", " "), text
    assert f"| {ADD} |" in "".join(of_pieces(section.pieces))


async def test_the_answer_names_what_changed_most_and_nothing_where_nothing_did(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    folder = await replay(script, paths, tmp_path, slower=1.3, rows=1)
    (said,) = (one for one in worded(folder).answer if LABEL in one)
    assert said.startswith(f"The time that changed most with jemalloc is that of {LABEL}: +30.")
    same = await replay(script, paths, tmp_path / "same", slower=1.0, rows=1)
    assert not any(LABEL in one for one in worded(same).answer)
    assert lines(StudyResult.load(same)) == ["No time of 3 by name is shown to differ."]


async def test_a_terminal_shows_the_largest_changes_and_their_number(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    folder = await replay(script, paths, tmp_path, slower=1.3, rows=1)
    summary = folder.summary()
    assert summary is not None and summary.operations is not None
    first = next(one for one in summary.operations.effects if one.beyond_noise)
    many = tuple(first.model_copy(update={"name": f"SELECT {n}", "ratio": 1 + n / 10}) for n in range(1, 8))
    record = summary.operations.model_copy(update={"effects": many})
    folder.write_summary(summary.model_copy(update={"operations": record}))
    head, *shown = lines(StudyResult.load(folder))
    assert head == "Times that changed, of 7 by name: 7. The largest changes:"
    assert [one.partition(" with")[0] for one in shown] == [f"SELECT {n}" for n in (7, 6, 5, 4, 3)]
