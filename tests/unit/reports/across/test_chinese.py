"""Comparisons and histories in Chinese: no English sentence is left, but for what studies store as text."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection
from html import escape
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from mydyno.language import LANGUAGES, speaking
from mydyno.reports.across import comparison_page, comparison_text, history_page, history_text
from mydyno.results.across.history import FoundStudies, Selection
from mydyno.results.across.saved import SavedStudy
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.across.arms import compare_arms
from mydyno.wording.across.compare import compare_studies
from mydyno.wording.across.history import history_of
from tests.support import fake_interleaved_folder
from tests.support.saved_studies import experiment, saved, values
from tests.support.visible_text import visible_texts
from tests.unit.cli.test_command_line import mydyno
from tests.unit.reports.test_chinese import english_sentences

TWO = {"glibc": (0.0, 0.0), "jemalloc": (0.042, -0.045)}
QUESTION = "Which one is faster?"
STORED = (QUESTION, "environment.ARM")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[StudyFolder]:
    base = tmp_path_factory.mktemp("interleaved")
    return [
        fake_interleaved_folder.build(base / f"allocators-{seed}", fake_interleaved_folder.Interleaved(TWO, seed=seed))
        for seed in (1, 2)
    ]


def left(text: str, own: Collection[str] = STORED) -> list[str]:
    """Lines of a text with words of English sentences, without what the studies store."""
    for one in own:
        text = text.replace(one, "")
    return english_sentences(text.splitlines())


def two_studies(steps: int = 2, effect: float = 0.12, **changes: object) -> list[SavedStudy]:
    random = np.random.default_rng(81)
    first = saved(values(random, (0.02, 0.0), steps=steps), name="allocators-1", latency=True)
    second = saved(
        values(random, (effect, 0.0), steps=steps), name="allocators-2", day=9, version="10.11.15-MariaDB",
        **changes,  # type: ignore[arg-type]
    )  # fmt: skip
    return [first, second]


def history_studies(jump: float = 0.07, days: int = 8) -> FoundStudies:
    random = np.random.default_rng(84)
    return FoundStudies(
        tuple(
            saved(
                values(random, (0.03 if day < 5 else 0.03 + jump,)), experiment(("A", "x")), name=f"allocators-{day}",
                day=day, version="10.11.14-MariaDB" if day < 5 else "10.11.15-MariaDB",
            )
            for day in range(days)
        ),
        (),
    )  # fmt: skip


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("effect", [0.12, 0.02, -0.1])
def test_no_english_is_left_in_a_comparison(steps: int, effect: float) -> None:
    with speaking("zh"):
        made = compare_studies(two_studies(steps, effect))
        text = comparison_text.comparison_markdown(made)
    assert "可以得出什么结论" in text
    assert left(text) == []


def test_no_english_is_left_where_studies_have_little_in_common() -> None:
    random = np.random.default_rng(5)
    other = experiment(("A", "x", "z"), steps=3)
    host = {"hostname": "vm-8", "cpus": 4}
    studies = [*two_studies(), saved(values(random, steps=3), other, name="allocators-3", day=11, host=host)]
    with speaking("zh"):
        text = comparison_text.comparison_markdown(compare_studies(studies))
    assert "仅 C 有" in text
    assert "未比较的部分" in text
    assert left(text) == []


def test_no_english_is_left_in_the_page_of_a_comparison(folders: list[StudyFolder]) -> None:
    studies = [SavedStudy.read(folder.path) for folder in folders]
    with speaking("zh"):
        page = comparison_page.comparison_page(compare_studies(studies), folders)
        arms = comparison_page.arms_page(compare_arms(studies[0], tuple(TWO)), folders[0])
    assert "Oltp_read" not in page, "names keep their letters"
    own = {"glibc", "jemalloc"} | {study.study.experiment.question for study in studies}
    for text in (page, arms):
        assert text.startswith('<!DOCTYPE html>\n<html lang="zh-CN">')
        texts = [re.sub("|".join(map(re.escape, own)), "", one) for one in visible_texts(text) if one != "on"]
        assert len(texts) > 50
        assert english_sentences(texts) == []
    words = json.loads(re.findall(r'id="telemetry-data">(.*?)</script>', page, re.DOTALL)[0])["words"]
    assert words["No run has this metric here."] == "此处没有运行有该指标。"


def test_the_answers_of_the_studies_are_in_the_language_of_the_comparison() -> None:
    found = {}
    for language in LANGUAGES:
        with speaking(language):
            made = compare_studies(two_studies()).studies
            found[language] = made[0].answer
            section = str(comparison_page._studies(made).html)
        assert all(escape(one.answer[0]).replace(" %", "\u00a0%") in section for one in made)
    assert found["en"] != found["zh"]


@pytest.mark.parametrize(("jump", "days"), [(0.07, 8), (0.0, 8), (-0.2, 6), (0.0, 3), (0.0, 2)])
def test_no_english_is_left_in_a_history(jump: float, days: int) -> None:
    with speaking("zh"):
        made = history_of(history_studies(jump, days), "allocators", Selection())
        texts = [history_text.history_markdown(made)]
        page = history_page.history_page(made)
    assert [line for text in texts for line in left(text)] == []
    assert english_sentences(one.replace(QUESTION, "") for one in visible_texts(page)) == []


def test_a_server_of_another_version_is_the_cause_in_chinese_too() -> None:
    with speaking("zh"):
        made = history_of(history_studies(), "allocators", Selection(arm="x"))
    assert "（介于" in made.answer[0]
    assert "；服务器 MariaDB 10.11.14 → MariaDB 10.11.15）。" in made.answer[0]


def test_the_text_on_a_terminal_is_wrapped_by_columns() -> None:
    file = io.StringIO()
    with speaking("zh"):
        comparison_text.print_comparison(compare_studies(two_studies()), file, 60)
    sentences = file.getvalue().splitlines()
    assert max(map(cell_len, sentences)) <= 60
    assert not [line for line in sentences if line.strip()[:1] in set("，。；：）")]
    assert left(file.getvalue()) == []


def test_the_commands_write_chinese_but_for_json(folders: list[StudyFolder], tmp_path: Path) -> None:
    names = [str(folder.path) for folder in folders]
    assert "可以得出什么结论" in mydyno(tmp_path, "compare", *names, "--format", "md", "--language", "zh").stdout
    assert not re.search(
        "[\u4e00-\u9fff]", mydyno(tmp_path, "history", names[0], "--format", "json", "--language", "zh").stdout
    )
    refused = mydyno(tmp_path, "history", names[0], "--language", "zn")
    assert refused.returncode == 2
    assert "--language zn: unknown; allowed: en (English), zh (简体中文)" in refused.stderr
