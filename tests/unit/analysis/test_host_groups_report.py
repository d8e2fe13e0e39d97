"""The host groups in every format: what differs between the hosts, each effect on each of them, what is claimed."""

from __future__ import annotations

import csv
import io
import json
import re
from html import unescape
from pathlib import Path

import pytest

from mydyno.evaluation.facts import summarise
from mydyno.reports import formats
from mydyno.reports.formats import markdown_text, print_answer
from mydyno.reports.page import render_page
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_study_folder import Shape, build
from tests.support.golden import check_golden
from tests.support.worded import worded

TWO = Shape(
    arms=("glibc", "jemalloc", "tcmalloc"),
    workloads=("oltp_read_only",),
    connections=(32,),
    blocks=8,
    measure_s=5.0,
    hosts=("vm01", "vm02"),
    host_effects={("vm01", "tcmalloc"): -0.12, ("vm02", "tcmalloc"): -0.02},
    summarise=False,
)


def made(path: Path, shape: Shape) -> StudyFolder:
    """The study with the program's own summary."""
    folder = build(path, shape)
    summarise(folder)
    return folder


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    return made(tmp_path_factory.mktemp("studies") / "allocators-20261121T190512Z", TWO)


@pytest.fixture(scope="module")
def twelve(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    hosts = tuple(f"vm{number:02d}" for number in range(1, 13))
    shape = Shape(
        arms=("glibc", "jemalloc"),
        workloads=("oltp_read_only",),
        connections=(32, 64),
        blocks=24,
        measure_s=5.0,
        hosts=hosts,
        summarise=False,
    )
    return made(tmp_path_factory.mktemp("studies") / "allocators-20261122T101512Z", shape)


def section(page: str, name: str) -> str:
    return page.partition(f' id="{name}"')[2].partition("</section>")[0]


def printed(folder: StudyFolder) -> str:
    file = io.StringIO()
    print_answer(folder, file)
    return file.getvalue()


def test_markdown_is_as_in_the_golden_file(two: StudyFolder) -> None:
    check_golden("report-hosts.md", markdown_text(two))


def test_the_terminal_names_the_hosts_on_one_line(two: StudyFolder) -> None:
    text = printed(two)
    assert "Blocks on each host: vm01 4, vm02 4." in text
    check_golden("answer-hosts.txt", re.sub(r" +$", "", text, flags=re.MULTILINE))


def test_the_page_names_what_differs_before_the_effects(two: StudyFolder) -> None:
    html = section(render_page(two), "hosts")
    text = unescape(re.sub(r"<[^>]+>", " ", html))
    assert "tcmalloc's effect differs between the hosts" in text
    places = [text.index(words) for words in ("kernel", "6.1.0-28-amd64", "6.12.9+bpo-amd64", "CPU governor",
                                              "relative to glibc, on each host")]  # fmt: skip
    assert places == sorted(places)
    assert "hosts like these" not in text, "two hosts"


@pytest.mark.slow
def test_from_three_hosts_on_there_is_an_interval_for_hosts_like_these(twelve: StudyFolder) -> None:
    summary = twelve.summary()
    assert summary is not None and summary.host_groups is not None
    assert list(summary.host_groups.blocks) == [f"vm{number:02d}" for number in range(1, 13)]
    html = section(render_page(twelve), "hosts")
    assert html.count("hosts like these") >= 2
    assert "12 hosts executed 2 blocks each." in html
    assert "<h3>Hosts (12)</h3>" in html, "a title that lacks what follows would say that they are equal"
    assert worded(twelve).scope.startswith("12 hosts (16 CPUs, 64.0 GiB each); effects are means over these hosts")


def test_the_answer_and_the_scope_name_the_hosts(two: StudyFolder) -> None:
    summary = worded(two)
    assert summary.answer[0].startswith("On these two hosts, ")
    assert any("differs between the hosts" in sentence for sentence in summary.answer)
    assert summary.scope.startswith("2 hosts: vm01 and vm02 (16 CPUs, 64.0 GiB each); effects are means")
    assert "the claims apply to these two hosts only" in summary.scope


def test_csv_and_json_have_the_host_of_every_run(two: StudyFolder) -> None:
    rows = list(csv.DictReader(io.StringIO(formats.csv_text(two))))
    assert {(row["block"], row["host_group"]) for row in rows} >= {("1", "vm01"), ("2", "vm02"), ("8", "vm02")}
    summary = json.loads(formats.json_text(two))
    assert {run["host_group"] for run in summary["runs"]} == {"vm01", "vm02"}
    (effect,) = [one for one in summary["host_groups"]["effects"] if one["arm"] == "tcmalloc"]
    assert effect["differs"] and effect["holds_on"] in ("these hosts", "no host")
    assert [one["group"] for one in effect["groups"]] == ["vm01", "vm02"]
    assert "cpu_governor" in summary["host_groups"]["differences"]


def test_a_study_of_one_host_has_no_trace_of_host_groups(tmp_path: Path) -> None:
    shape = Shape(arms=("glibc", "jemalloc"), workloads=("oltp_read_only",), connections=(16,), blocks=2,
                  measure_s=5.0, summarise=False)  # fmt: skip
    folder = made(tmp_path / "one", shape)
    texts = [path.read_text() for path in folder.path.rglob("*.json")]
    assert not any("host_group" in text or '"hosts"' in text for text in texts)
    assert 'id="hosts"' not in render_page(folder)
    assert "host_group" not in formats.csv_text(folder)
    assert "### Hosts" not in markdown_text(folder)
