"""The answer on a terminal and in a pipe: at most as wide as it may be, with the verdicts in words."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from mydyno.reports.formats import print_answer
from mydyno.store.study_folder import StudyFolder
from mydyno.visible import VisibleText
from tests.support.fake_interleaved_folder import FACTORS, Interleaved, build
from tests.support.golden import check_golden
from tests.support.worded import worded


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    return build(tmp_path_factory.mktemp("studies") / "allocators-20261118T110640Z", Interleaved(cycles=4))


def printed(folder: StudyFolder, width: int | None = None) -> str:
    file = io.StringIO()
    print_answer(folder, file, width)
    return file.getvalue()


def test_a_pipe_gets_plain_text_of_80_columns_as_in_the_golden_file(study: StudyFolder) -> None:
    text = printed(study)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    check_golden("answer-interleaved.txt", re.sub(r" +$", "", text, flags=re.MULTILINE))


def test_question_answer_table_scope_and_sharpen_come_in_this_order(study: StudyFolder) -> None:
    summary = worded(study)
    text = " ".join(printed(study).split())
    places = [text.index(words) for words in (summary.question, *summary.answer, "arm QPS CPU per query",
                                              summary.scope, *summary.sharpen)]  # fmt: skip
    assert places == sorted(places)


def test_six_effects_are_printed_with_and_without_their_adjustment_and_more_are_counted(
    study: StudyFolder, tmp_path: Path
) -> None:
    one_step = printed(build(tmp_path / "one", Interleaved(cycles=4, workloads=("oltp_read_write",))))
    rows = [line for line in one_step.splitlines() if re.match(r"(QPS|CPU per query) +\w+ +[−+][\d.]+ % \(", line)]
    assert len(rows) == 6
    assert "12 rows; --format html and json list them" in printed(study)


def test_a_wide_terminal_has_each_contrast_on_one_line(study: StudyFolder) -> None:
    line = next(line for line in printed(study, 120).splitlines() if line.startswith("jemalloc "))
    assert re.fullmatch(r"jemalloc +▲ \+[\d.]+ % \(.* … .*\) higher +▼ −[\d.]+ % \(.* … .*\) lower *", line)


def test_a_narrow_terminal_breaks_no_number(study: StudyFolder) -> None:
    text = printed(study, 60)
    assert not re.search(r"^ *%", text, re.MULTILINE)


def test_a_stream_without_the_signs_gets_ascii(study: StudyFolder) -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    print_answer(study, file)
    file.flush()
    text = raw.getvalue().decode("ascii")
    assert re.search(r"\^ \+[\d.]+ % \[\+", text) and "^ higher" in text and "+/-" in text


def test_factors_are_a_grid(tmp_path: Path) -> None:
    planted = {name: (-0.66 if "zlib" in name else 0.0, 0.0) for name in FACTORS}
    shape = Interleaved(planted=planted, treatments=FACTORS, workloads=("oltp_read_only",), cycles=2)
    text = printed(build(tmp_path / "network", shape))
    assert re.search(r"^network +tls +raw +zlib", text, re.MULTILINE)
    assert re.search(r"^10gbit +plain +control [\d.]+ k/s +▼ −\d\d\.\d % \[−", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("width", range(40, 100, 7))
def test_commands_are_written_as_the_stream_says_wherever_lines_break(study: StudyFolder, width: int) -> None:
    assert "mydyno resume" in " ".join(printed(study, width).split())
    raw = io.BytesIO()
    file = VisibleText(io.BufferedWriter(raw), "utf-8", False, lambda text: text.replace("mydyno resume", "./m resume"))  # type: ignore[arg-type]  # writable
    print_answer(study, file, width)
    file.flush()
    text = " ".join(raw.getvalue().decode().split())
    assert "./m resume" in text
    assert "mydyno resume" not in text
