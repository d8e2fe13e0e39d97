from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mydyno.store.logs import LIVE_FILE
from mydyno.store.study_folder import StudyFolder
from mydyno.web.index import LiveStatus, Row, StudyIndex, effects_of, live_status, read_row
from tests.support.fake_study_folder import Shape, build
from tests.support.worded import worded
from tests.unit.web.test_live_status import opened, written

SMALL = Shape(arms=("glibc", "jemalloc"), workloads=("oltp_read_only",), connections=(8,), blocks=1, warmup_s=1,
              measure_s=2)  # fmt: skip


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    build(tmp_path / "studies" / "one", SMALL)
    shutil.copytree(tmp_path / "studies" / "one", tmp_path / "studies" / "two")
    return tmp_path / "studies"


class Reads:
    """Reads rows, and keeps the names of their studies."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def __call__(self, path: Path) -> Row:
        self.found.append(path.name)
        return read_row(path)


def test_a_row_has_what_the_list_shows(studies: Path) -> None:
    summary = worded(StudyFolder.open(studies / "one"))
    row = next(row for row in StudyIndex(studies).rows() if row.id == "one")
    assert (row.question, row.answer, row.state) == (summary.question, summary.answer[0], summary.state)
    assert (row.host, row.server) == ("bench-1", "mariadb-10.11")
    assert row.problem == ""


def test_only_what_changed_is_read_again(studies: Path, tmp_path: Path) -> None:
    read = Reads()
    index = StudyIndex(studies, tmp_path / "cache", read)
    index.rows()
    read.found.clear()
    index.rows()
    assert read.found == []
    summary = json.loads((studies / "two" / "summary.json").read_text())
    (studies / "two" / "summary.json").write_text(json.dumps(summary | {"question": "Another question?"}))
    assert {row.id: row.question for row in index.rows()}["two"] == "Another question?"
    assert read.found == ["two"]


def test_the_next_server_reads_only_what_changed_since(studies: Path, tmp_path: Path) -> None:
    before = StudyIndex(studies, tmp_path / "cache").rows()
    read = Reads()
    assert StudyIndex(studies, tmp_path / "cache", read).rows() == before
    assert read.found == []
    (file,) = (tmp_path / "cache").iterdir()
    for damage in ("{", "[]", '{"format": 1, "version": "other", "rows": {}}', file.read_text()[:-20]):
        file.write_text(damage)
        assert StudyIndex(studies, tmp_path / "cache", read).rows() == before
    assert sorted(read.found) == sorted(["one", "two"] * 4)


def test_only_the_live_file_of_a_study_that_runs_is_read_again(studies: Path) -> None:
    shutil.copytree(studies / "one", studies / "three")
    written(studies / "one", opened())
    shutil.copy2(studies / "one" / LIVE_FILE, studies / "two" / LIVE_FILE)
    written(studies / "three", opened(boot_id="of another host"))
    os.utime(studies / "three" / LIVE_FILE, (1, 1))
    read: list[str] = []

    def noted(path: Path) -> LiveStatus:
        read.append(path.name)
        return live_status(path)

    index = StudyIndex(studies, status=noted)
    with (studies / "one" / LIVE_FILE).open("ab"):
        for _ in range(3):
            rows = {row.id: row for row in index.rows()}
            assert {name: row.live for name, row in rows.items()} == {
                "one": "running", "two": "copied", "three": "silent"
            }  # fmt: skip
            assert [name for name, row in rows.items() if row.state == "running"] == ["one"]
    assert sorted(read) == ["one", "one", "one", "three", "two"]


def test_a_study_that_was_removed_is_not_listed(studies: Path) -> None:
    index = StudyIndex(studies)
    assert len(index.rows()) == 2
    shutil.rmtree(studies / "one")
    assert [row.id for row in index.rows()] == ["two"]
    assert index.find("one") is None and index.find("two") == studies / "two"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("study.json", "", "study.json cannot be read"),
        ("study.json", "[1, 2]", "not an object"),
        ("study.json", '{"format": 99}', "format 99; this mydyno reads"),
        ("study.json", '{"format": 6}', ""),
        ("study.json", '{"format": 6, "experiment": "a word", "host": 1, "versions": null}', ""),
        ("summary.json", '{"state": 3', "summary.json cannot be read"),
        ("summary.json", '{"state": ["complete"]}', "summary.json cannot be read"),
        ("study.json", None, "study.json cannot be read"),
        ("plan.json", None, "plan.json is missing"),
    ],
)
def test_a_damaged_study_is_listed_with_what_is_wrong(
    studies: Path, name: str, content: str | None, words: str
) -> None:
    path = studies / "one" / name
    path.unlink()
    if content is not None:
        path.write_text(content)
    row = next(row for row in StudyIndex(studies).rows() if row.id == "one")
    assert words in row.problem and bool(words) == bool(row.problem)
    assert (row.state == "damaged") == bool(words)


def test_a_study_whose_numbers_cannot_be_is_listed_without_an_answer(studies: Path) -> None:
    path = studies / "one" / "summary.json"
    summary = json.loads(path.read_text())
    factor = {"name": "x", "first": "1", "last": "2", "ratio": 1.0, "ci_low": 0.0, "ci_high": 1.0, "active": False}
    screening = {"metric": "qps", "step": "s", "runs": 8, "blocks": 2, "method": "blocks", "standard_error": 0.0}
    path.write_text(json.dumps({**summary, "screening": [{**screening, "factors": [factor]}]}))
    rows = {row.id: row for row in StudyIndex(studies).rows()}
    assert (rows["one"].problem, rows["one"].state, rows["one"].answer) == ("", summary["state"], "")
    assert rows["two"].answer


def test_the_effects_of_a_row_are_those_that_a_reader_may_see(tmp_path: Path) -> None:
    study = build(tmp_path / "one", replace(SMALL, blocks=2))
    summary, record = study.summary(), study.study()
    assert summary is not None
    row = read_row(study.path)
    found = row.effects
    assert row.undecided == [*found], "two blocks decide nothing"
    assert [one.partition("\n")[0] for one in found] == ["QPS of jemalloc relative to glibc, oltp_read_only-8"]
    larger = record.experiment.model_copy(update={"data": record.experiment.data.model_copy(update={"rows": 7})})
    other, _ = effects_of(summary, record.model_copy(update={"experiment": larger}))
    assert len(other) == 1 and not {*other} & {*found}, "other data: another series"
    assert effects_of(summary.model_copy(update={"due": False}), record) == ({}, []), "before the first look"


def test_a_missing_folder_has_no_studies(tmp_path: Path) -> None:
    assert StudyIndex(tmp_path / "missing", tmp_path / "cache").rows() == []
