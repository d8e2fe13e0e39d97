"""Reports in Chinese: no English sentence is left, but for what a study stores as text, which is marked as English."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from mydyno import reports
from mydyno.language import speaking
from mydyno.model.stored.reasons import Reason
from mydyno.reports.page import render_page
from mydyno.results.facts import summarise
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_interleaved_folder import Interleaved, build
from tests.support.fake_study_folder import Shape
from tests.support.fake_study_folder import build as build_blocks
from tests.support.visible_text import visible_texts
from tests.unit.cli.test_command_line import mydyno

ENGLISH = re.compile(
    r"\b(?:the|of|and|with|than|is|are|was|at|more|less|about|this|that|in|on|for|no|not|to|from|by|each|all|arms?|blocks?|"
    r"runs?|steps?|levels?|valid|effects?|hosts?|change|none|state|unknown|failed)\b",
    re.IGNORECASE,
)
"""Words that an English sentence has and a name has not."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    return build(tmp_path_factory.mktemp("studies") / "allocators-chinese", Interleaved(cycles=4))


@pytest.fixture(scope="module")
def page(folder: StudyFolder) -> str:
    with speaking("zh"):
        return Path(str(reports.write(folder, "html"))).read_text(encoding="utf-8")


def own_words(folder: StudyFolder) -> set[str]:
    """What stands in a report as the study has it: the question, and metrics that the program does not know."""
    study, summary = folder.study(), folder.summary()
    assert summary is not None
    described = {one.description for one in summary.metrics.values()}
    question = study.experiment.question
    return {question, f"{study.experiment.name}: {question}", study.study, *described}


def english_sentences(texts: Iterable[str], own: Collection[str] = ()) -> list[str]:
    """The texts with words of English sentences; paths are none."""
    left = (re.sub(r"[\w.-]*/[\w./-]+", "", text) for text in texts if text not in own)
    return [text for text in left if ENGLISH.search(text)]


def test_the_page_says_its_language(page: str) -> None:
    assert page.startswith('<!DOCTYPE html>\n<html lang="zh-CN">')
    assert '<section id="effects" aria-labelledby="effects-title">' in page


def test_the_first_section_has_chinese_verdicts(page: str) -> None:
    first = " ".join(visible_texts(page[page.index('<section id="answer"') : page.index("</section>")]))
    assert all(word in first for word in ("结论", "更高", "更低", "尚无定论", "如何提高精度", "适用范围"))
    assert "每秒查询数高于 glibc" in first
    assert "jemalloc 对比 glibc（QPS，oltp_read_only，64 个连接）：更高。" in first


def test_no_english_sentence_is_left_in_a_report(folder: StudyFolder, page: str) -> None:
    texts = visible_texts(page)
    assert len(texts) > 500
    assert english_sentences(texts, own_words(folder)) == []


def test_no_english_sentence_is_left_in_a_report_over_hosts_and_blocks(tmp_path: Path) -> None:
    shape = Shape(
        arms=("glibc", "jemalloc"), workloads=("oltp_read_only",), connections=(16, 32), blocks=4, measure_s=4.0,
        hosts=("vm01", "vm02"), invalid={(2, 2): Reason(gate="unproved", text="the allocator is not loaded")},
        links={"jemalloc": {"network": "1gbit"}}, summarise=False,
    )  # fmt: skip
    made = build_blocks(tmp_path / "chinese", shape)
    summarise(made)
    with speaking("zh"):
        text = render_page(made)
    assert "处理未得到证实：" in text
    assert '<span lang="en">the allocator is not loaded</span>' in text, "what was found is shown as it is stored"
    assert '<span lang="en">malloc of mariadbd binds to libc.so.6</span>)' in text
    stored = ("the allocator is not loaded", "malloc of mariadbd binds to libc.so.6")
    texts = [one.replace(stored[0], "").replace(stored[1], "") for one in visible_texts(text)]
    assert english_sentences(texts, own_words(made)) == []


def test_the_pattern_finds_english_where_it_is(folder: StudyFolder) -> None:
    assert len(english_sentences(visible_texts(render_page(folder)), own_words(folder))) > 100


def test_markdown_has_the_same_answer(folder: StudyFolder) -> None:
    with speaking("zh"):
        text = str(reports.write(folder, "md"))
    assert "| 负载水平 | 方案 | QPS |" in text
    assert "每秒查询数高于 glibc" in text


def test_the_report_without_a_language_stays_english(folder: StudyFolder) -> None:
    text = str(reports.write(folder, "md"))
    assert "more queries than glibc" in text
    assert not re.search(r"[\u4e00-\u9fff]", text)


def test_an_unknown_language_is_refused_with_the_allowed_ones(folder: StudyFolder, tmp_path: Path) -> None:
    found = mydyno(tmp_path, "report", str(folder.path), "--language", "zn")
    assert found.returncode == 2
    assert "--language zn: unknown; allowed: en (English), zh (简体中文)" in found.stderr
