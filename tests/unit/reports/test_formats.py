"""The text reports against golden files, and what all formats share. MYDYNO_UPDATE_GOLDEN=1 rewrites the files."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mydyno import reports
from mydyno.document.printers import escape
from mydyno.document.result import StudyResult
from mydyno.errors import UserError
from mydyno.evaluation.answer import answer_of
from mydyno.model.stored.reasons import Reason
from mydyno.reports.formats import COLUMNS
from mydyno.reports.sections.answer import chips
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.stored_result import StoredResult
from tests.support.fake_interleaved_folder import Interleaved
from tests.support.fake_interleaved_folder import build as build_interleaved
from tests.support.fake_study_folder import Shape, build
from tests.support.golden import check_golden
from tests.support.stored_schemas import validator

SMALL = Shape(
    arms=("glibc", "jemalloc"),
    workloads=("oltp_read_only",),
    connections=(16, 64),
    blocks=3,
    warmup_s=2,
    measure_s=4,
    invalid={(2, 1): Reason(check="unproved", text="allocator: malloc binds to libc.so.6")},
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    return build(tmp_path_factory.mktemp("studies") / "allocators-20261118T110640Z", SMALL)


@pytest.mark.parametrize(("format_name", "suffix"), [("md", "md"), ("csv", "csv"), ("json", "json")])
def test_a_text_report_is_as_the_golden_file(study: StudyFolder, format_name: str, suffix: str) -> None:
    text = reports.write(study, format_name)
    assert isinstance(text, str)
    check_golden(f"report-small.{suffix}", text)


def test_every_format_has_a_name_and_a_description() -> None:
    assert list(reports.FORMATS) == ["html", "md", "csv", "json"]
    assert all(name == one.name and one.description for name, one in reports.FORMATS.items())


def test_an_unknown_format_is_the_users_error_and_names_the_known_ones(study: StudyFolder) -> None:
    with pytest.raises(UserError, match=r"'pdf'") as error:
        reports.write(study, "pdf")
    assert "html, md, csv, json" in error.value.hint


def contains(whole: Any, part: Any) -> bool:
    """Whether a JSON document has everything that another one has."""
    if isinstance(part, dict):
        return all(name in whole and contains(whole[name], value) for name, value in part.items())
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(contains, whole, part))
    return bool(whole == part)


def test_json_is_summary_json_with_its_answer(study: StudyFolder) -> None:
    stored = json.loads((study.path / "summary.json").read_text())
    printed = json.loads(str(reports.write(study, "json")))
    validator("report").validate(printed)
    assert contains(printed, stored) and not contains(stored, printed)
    result = StoredResult.load(study)
    found = answer_of(result)
    assert tuple(printed["answer"]) == found.answer and printed["scope"] == found.scope


def test_csv_has_a_row_for_every_run_step_and_metric_and_the_stored_value(study: StudyFolder) -> None:
    summary = study.summary()
    assert summary is not None
    rows = list(csv.DictReader(io.StringIO(str(reports.write(study, "csv")))))
    assert tuple(rows[0]) == COLUMNS
    expected = {
        (run.folder.split("/")[1], run.arm, run.copy_number, step, metric): value
        for run in summary.runs
        for step, values in run.values.items()
        for metric, value in values.items()
    }
    found = {
        (f"{int(row['block']):02d}", row["arm"], int(row["copy"]), row["step"], row["metric"]): float(row["value"])
        for row in rows
    }
    assert found == expected
    assert {row["valid"] for row in rows} == {"true", "false"}


def test_csv_documents_every_column_in_its_file() -> None:
    from mydyno.reports import formats

    for column in COLUMNS:
        assert column in (formats.__doc__ or "")


def test_markdown_escapes_what_could_become_markup() -> None:
    assert escape("a|b\n<script>*x*</script>") == r"a\|b &lt;script&gt;\*x\*&lt;/script&gt;"


def test_a_study_without_a_summary_says_so_in_every_text_format(tmp_path: Path) -> None:
    folder = build(tmp_path / "early", Shape(**{**SMALL.__dict__, "finished_runs": 1, "summarise": False}))
    assert "the study has no evaluated effect" in str(reports.write(folder, "md"))
    assert json.loads(str(reports.write(folder, "json")))["state"] == "partial"
    assert str(reports.write(folder, "csv")).splitlines() == [",".join(COLUMNS)]


def test_importing_reports_loads_nothing_heavy() -> None:
    heavy = ("jinja2", "duckdb", "numpy", "scipy", "matplotlib")
    code = f"import sys, mydyno.reports; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_study_of_one_run_says_why_there_is_no_answer_and_has_one_number_of_blocks(tmp_path: Path) -> None:
    folder = build(tmp_path / "allocators-1", Shape(finished_runs=1, connections=(16,), warmup_s=2, measure_s=4))
    text = reports.write(folder, "md")
    assert isinstance(text, str)
    result = StudyResult.load(folder)
    why = "jemalloc, tcmalloc and mimalloc are not measurable: no block has a valid run of both arms."
    assert why in text and why in answer_of(result).answer
    assert (
        "; 0 blocks;" in text and "planned runs is valid, 0 blocks," in text and ("plain", "0 blocks") in chips(result)
    )
    assert r"mydyno resume allocators-1 makes the rest" in text


def test_a_failed_run_is_valid_and_named_beside_the_number_of_valid_ones(tmp_path: Path) -> None:
    shape = Interleaved(cycles=4, noise=0.9, failures={(2, "jemalloc"): "mariadbd ended with signal 11"})
    text = reports.write(build_interleaved(tmp_path / "noisy-1", shape), "md")
    assert isinstance(text, str)
    assert "30 of 30 planned runs are valid, an arm failed in 1 run, 6 blocks" in text
    assert "a factor of" in text and not re.search(r"±[3-9]\d|±\d{3}", text), "no half-width above 20 % is a ±"
