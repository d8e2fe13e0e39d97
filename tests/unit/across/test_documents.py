"""Comparisons and histories as text, Markdown and pages: answer first, self-contained, escaped, the same numbers."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from mydyno.across.arms import arms_document, compare_arms
from mydyno.across.compare import compare_studies
from mydyno.across.comparison import comparison_document, effects_table, noise_table
from mydyno.across.history import FoundStudies, Selection, history_of
from mydyno.across.history_document import history_document
from mydyno.across.saved import SavedStudy
from mydyno.document.parts import Document
from mydyno.document.printers import Paper
from mydyno.document.printers import printed as as_markdown
from mydyno.model.stored.comparison import Comparison, History, LeftOut
from mydyno.model.stored.schemas import stored_schema
from mydyno.store.study_folder import StudyFolder
from tests.support import fake_interleaved_folder
from tests.support.golden import check_golden
from tests.support.saved_studies import experiment, saved, values
from tests.unit.reports.test_html import Page

TWO = {"glibc": (0.0, 0.0), "jemalloc": (0.042, -0.045)}


def printed(document: Document, width: int | None = None) -> str:
    file = io.StringIO()
    Paper(file, width).document(document)
    return file.getvalue()


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    random = np.random.default_rng(81)
    a = saved(values(random, (0.02, 0.0), steps=2), name="allocators-1", latency=True)
    b = saved(values(random, (0.12, 0.0), steps=2), name="allocators-2", day=9, version="10.11.15-MariaDB")
    return compare_studies((a, b))


@pytest.fixture(scope="module")
def history() -> History:
    random, found = np.random.default_rng(84), []
    for day in range(8):
        logs = values(random, (0.03 if day < 5 else 0.1,))
        version = "10.11.14-MariaDB" if day < 5 else "10.11.15-MariaDB"
        found.append(saved(logs, experiment(("A", "x")), name=f"allocators-{day}", day=day, version=version))
    left = (LeftOut(study="allocators-half", reason="summary.json cannot be read"),)
    return history_of(FoundStudies(tuple(found), left), "allocators", Selection(arm="x"))


@pytest.fixture(scope="module")
def interleaved(tmp_path_factory: pytest.TempPathFactory) -> list[StudyFolder]:
    base = tmp_path_factory.mktemp("interleaved")
    return [
        fake_interleaved_folder.build(base / f"allocators-{seed}", fake_interleaved_folder.Interleaved(TWO, seed=seed))
        for seed in (1, 2)
    ]


def test_a_comparison_on_a_terminal_is_as_the_golden_file(comparison: Comparison) -> None:
    check_golden("compare.txt", printed(comparison_document(comparison)))


def test_a_comparison_as_markdown_is_as_the_golden_file(comparison: Comparison) -> None:
    check_golden("compare.md", as_markdown(comparison_document(comparison), "`--format html`"))


def test_a_history_on_a_terminal_is_as_the_golden_file(history: History) -> None:
    check_golden("history.txt", printed(history_document(history)))


def test_a_history_as_markdown_is_as_the_golden_file(history: History) -> None:
    check_golden("history.md", as_markdown(history_document(history), "`--format html`"))


def test_a_history_of_many_series_has_a_row_for_each_and_no_table_of_studies(history: History) -> None:
    """More than two: on a terminal their studies are printed for a selection only."""
    one = history.series[0]
    more = [one.model_copy(update={"arm": arm}) for arm in ("y", "z")]
    text = printed(history_document(history.model_copy(update={"series": (*history.series, *more)})))
    rows = [line.partition("  ")[0] for line in text.splitlines() if re.match(r"(effect|level) of ", line)]
    assert rows == ["effect of x", "level of x", "effect of y", "effect of z"]
    studies = text[text.index("Every study") :]
    assert "date (UTC)" not in studies
    assert "--arm, --step and --metric select a series and print each study of it." in studies


def test_what_changed_between_studies_names_the_series_where_they_differ(history: History) -> None:
    one, other = history.series
    changed = ("version: A → B",)
    points = tuple(
        point.model_copy(update={"changed": changed}) if point.study == "allocators-5" else point
        for point in one.points
    )
    spoilt = one.model_copy(update={"points": points})
    text = " ".join(printed(history_document(history.model_copy(update={"series": (spoilt, other)}))).split())
    assert "- allocators-5: version: A → B (The effect of x on queries per second)" in text
    assert "10.11.15 (The level of queries per second of x)" in text


def test_what_is_printed_as_json_has_a_schema(
    comparison: Comparison, history: History, interleaved: list[StudyFolder]
) -> None:
    arms = compare_arms(SavedStudy.read(interleaved[0].path), tuple(TWO))
    for name, made in (("comparison", comparison), ("history", history), ("arms", arms)):
        schema = jsonschema.Draft202012Validator(stored_schema(name))
        document = json.loads(made.model_dump_json())
        assert [error.message for error in schema.iter_errors(document)] == []
        assert not schema.is_valid({**document, "answer": 1})


def test_the_answer_comes_first_and_no_line_is_wider_than_the_terminal(
    comparison: Comparison, history: History
) -> None:
    for document in (comparison_document(comparison), history_document(history)):
        text = printed(document, 80)
        assert " ".join(document.parts[0].lead[0].split()[:6]) in text.splitlines()[2]
        assert max(map(len, text.splitlines())) <= 80


def test_json_is_read_back_as_the_same_comparison_and_history(comparison: Comparison, history: History) -> None:
    assert Comparison.model_validate_json(comparison.model_dump_json()) == comparison
    assert History.model_validate_json(history.model_dump_json()) == history


def test_a_stream_without_signs_gets_plain_letters(history: History) -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Paper(file).document(history_document(history))
    file.seek(0)
    assert re.search(r"effect of x +[1-8]{8} ", file.read())


def test_a_comparison_of_interleaved_studies_is_one_self_contained_page(interleaved: list[StudyFolder]) -> None:
    made = compare_studies([SavedStudy.read(folder.path) for folder in interleaved])
    page = comparison_document(made, whole=True).page
    found = Page(page)
    assert found.loads == []
    assert len(found.ids) == len(set(found.ids))
    assert {"answer", "studies", "effects", "settings", "noise"} <= set(found.ids)
    words = " ".join(found.words)
    assert words.index("are equivalent") < words.index("What each study asked")


def test_hostile_names_are_text_on_every_page(tmp_path: Path, history: History) -> None:
    evil = '<script>alert("x")</script>'
    folder = fake_interleaved_folder.build(tmp_path / "allocators-1", fake_interleaved_folder.Interleaved(TWO))
    other = fake_interleaved_folder.build(tmp_path / "allocators-2", fake_interleaved_folder.Interleaved(TWO))
    made = compare_studies([SavedStudy.read(one.path) for one in (folder, other)])
    first = made.studies[0].model_copy(update={"question": evil, "study": evil, "host": evil})
    made = made.model_copy(update={"studies": (first, *made.studies[1:]), "answer": (evil,)})
    arms = compare_arms(SavedStudy.read(folder.path), ("glibc", "jemalloc")).model_copy(update={"answer": (evil,)})
    spoilt = history.model_copy(update={"question": evil, "left_out": (LeftOut(study=evil, reason=evil),)})
    for page in (
        comparison_document(made, whole=True).page,
        arms_document(arms, whole=True).page,
        history_document(spoilt).page,
    ):
        assert evil not in page
        assert Page(page).tags.count("script") == 1
        assert "alert" in page


def test_a_history_page_has_a_chart_for_each_series_and_marks_the_change(history: History) -> None:
    page = history_document(history).page
    found = Page(page)
    assert found.loads == []
    assert {"history:effect:qps:oltp_read_only-4:x", "history:level:qps:oltp_read_only-4:x"} <= found.charts
    assert page.count('class="event-rule"') == 2 * sum(len(one.changes) for one in history.series)
    assert "allocators-5" in " ".join(found.words)
    assert "summary.json cannot be read" in " ".join(found.words)


def test_tables_have_a_column_for_each_study_and_each_difference(comparison: Comparison) -> None:
    table = effects_table(comparison, judged=True)
    assert table is not None
    assert table.head == ("arm", "effect in A", "effect in B", "B / A")
    assert {len(row) for row in table.rows} == {1, 4}
    noise = noise_table(comparison.studies, comparison.steps)
    assert noise is not None
    assert len(noise.rows) == 2
