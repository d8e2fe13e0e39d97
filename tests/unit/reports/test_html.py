"""The HTML report: self-contained, small, escaped, complete, and honest about what is missing."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from mydyno import reports
from mydyno.document.parts import Cell, Figure, FigureGroup, Figures, Part, Table
from mydyno.document.result import StudyResult
from mydyno.evaluation.answer import Answer
from mydyno.model.stored.reasons import Reason, fact
from mydyno.model.stored.summary import ConclusionRecord, StepLevel
from mydyno.reports.sections import answer, trust
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_study_folder import Shape, build
from tests.support.worded import worded

FULL = Shape(
    blocks=4,
    connections=(16, 64, 128),
    warmup_s=3,
    measure_s=5,
    invalid={
        (2, 3): Reason(check="unproved", text="allocator: malloc binds to libc.so.6"),
        (3, 1): Reason(check="steady", text="drift"),
    },
)
CHAPTERS = ("answer", "why", "over-time", "load", "trust", "repeat")
VOID = {"meta", "input", "br", "path", "rect", "link"}


class Page(HTMLParser):
    """Checks nesting, and collects what a reader sees and what a browser would load."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.words: list[str] = []
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.charts: set[str] = set()
        self.tags: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attributes:
            if name in ("src", "srcset", "data", "poster", "action") or (name == "href" and tag != "a"):
                self.loads.append(str(value))
            if name == "href" and tag == "a":
                self.links.append(str(value))
            if name == "id":
                self.ids.append(str(value))
            if name == "data-chart":
                self.charts.add(str(value))
            assert not name.startswith("on"), f"{tag} has {name}"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def visible(self) -> str:
        return " ".join(" ".join(self.words).split())


def make(folder: StudyFolder) -> tuple[str, Page]:
    path = reports.write(folder, "html")
    assert path == folder.path / "report.html"
    text = Path(path).read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("details") <= 15 and len(page.charts) <= 20 and len(text.encode()) < 400_000
    return text, page


def telemetry_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="telemetry-data">(.*?)</script>', text, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[StudyFolder, str, Page]]:
    folder = build(tmp_path_factory.mktemp("studies") / "allocators-full", FULL)
    yield folder, *make(folder)


def assert_clean(page: Page) -> None:
    """Nothing that a reader should never see, and every id once."""
    for bad in (r"\bnan\b", r"\bNone\b", r"\binf\b", r"\bundefined\b", r"\{\{", r"\bTraceback\b", r"</?h\d>"):
        assert not re.search(bad, page.visible, re.IGNORECASE if bad != r"\bNone\b" else 0), bad
    assert len(page.ids) == len(set(page.ids))
    assert not page.loads


def test_the_page_loads_nothing_and_is_clean(full: tuple[StudyFolder, str, Page]) -> None:
    _, text, page = full
    assert_clean(page)
    assert "@import" not in text and not re.search(r"url\(", text)
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", text))
    assert addresses == {"http://www.w3.org/2000/svg", "https://github.com/leeoniya/uPlot"}, "a name and a notice"
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)


def test_the_notice_of_the_vendored_library_is_in_the_page(full: tuple[StudyFolder, str, Page]) -> None:
    assert "Copyright (c) 2022 Leon Sorokin" in full[1] or "Leon Sorokin" in full[1]
    assert "Permission is hereby granted" in full[1]


def test_every_chart_that_studies_1_and_3_list_is_in_the_page(full: tuple[StudyFolder, str, Page]) -> None:
    _, text, page = full
    expected = {"published:study-3"}
    data = telemetry_of(text)
    explorer = set()
    for place in data["panels"]:
        step, series = map(int, place.split(":"))
        explorer.add((data["steps"][step]["id"], data["series"][series]["metric"]))
    for workload in FULL.workloads:
        for metric in ("cpu_user_pct", "qps", "tps", "server_rss_bytes", "server_vsize_bytes"):
            expected.add(f"sweep:{metric}:{workload}")  # study 1: one summary chart per metric against connections
            for connections in FULL.connections:  # study 1: each metric over time per connection count
                assert (f"{workload}-{connections}", metric) in explorer
        expected |= {f"sweep:latency_p99_us:{workload}"}
    assert expected <= page.charts


def test_runs_stand_over_the_time_of_their_blocks(full: tuple[StudyFolder, str, Page]) -> None:
    _, text, page = full
    chart = text.split('data-chart="clock"')[1].split("</svg>")[0]
    drawn = {css: sum(path.count("M") for path in re.findall(rf'class="{css}" d="([^"]*)"', chart))
             for css in ("slice", "ring")}  # fmt: skip
    assert drawn == {"slice": 4 * 4 * 6, "ring": 4 * 6}, "runs of every arm, and of the copy, at six load levels"
    assert len(re.findall(r'class="stripe"', chart)) == 4 * 6, "blocks are shaded in each level's panel"
    assert "QPS of each run" in page.visible and "Each mark is one run at one load level" in page.visible


def test_what_other_programs_used_is_drawn_beside_the_runs(tmp_path: Path) -> None:
    folder = build(tmp_path / "study", Shape(blocks=2, workloads=("oltp_read_only",), connections=(16,), **SHORT))
    summary = folder.summary()
    assert summary is not None
    used = {"cpu_user": 60.0, "cpu_system": 10.0, "server_cpu_user": 400.0, "server_cpu_system": 80.0,
            "driver_cpu_user": 220.0, "driver_cpu_system": 100.0}  # fmt: skip
    more = {f"{name}_pct": value for name, value in used.items()}
    runs = tuple(
        run.model_copy(update={"values": {step: values | more for step, values in run.values.items()}})
        for run in summary.runs
    )
    folder.write_summary(summary.model_copy(update={"runs": runs}))
    text, page = make(folder)
    assert "CPU time of other programs" in text.split('data-chart="clock"')[1].split("</svg>")[0]
    assert "QPS of each run; other programs used 20 % of the CPU time" in page.visible, "of 16 CPUs"


def test_each_panel_overlays_every_arm_with_its_band_and_the_copy_without(full: tuple[StudyFolder, str, Page]) -> None:
    data = telemetry_of(full[1])
    assert [group["copy"] for group in data["groups"]] == [False] * 4 + [True]
    assert len({(group["colour"], group["dash"]) for group in data["groups"]}) == 5
    for panel in data["panels"].values():
        assert [line[0] for line in panel["lines"]] == [0, 1, 2, 3, 4]
        assert [len(line) for line in panel["lines"]] == [4, 4, 4, 4, 2]


def test_packed_telemetry_is_the_median_and_the_range_of_the_valid_runs(full: tuple[StudyFolder, str, Page]) -> None:
    import duckdb

    folder, text, _ = full
    data = telemetry_of(text)
    step = next(index for index, one in enumerate(data["steps"]) if one["id"] == "oltp_read_write-64")
    series = next(index for index, one in enumerate(data["series"]) if one["metric"] == "qps")
    jemalloc = next(index for index, group in enumerate(data["groups"]) if group["label"] == "jemalloc")
    line = next(one for one in data["panels"][f"{step}:{series}"]["lines"] if one[0] == jemalloc)
    unpacked = [[value for (value,) in struct.iter_unpack("<f", base64.b64decode(part))] for part in line[1:]]
    valid = [str(folder.samples_path(run.folder)) for run in folder.runs() if run.valid and run.arm == "jemalloc"]
    found = duckdb.sql(
        f"select median(value), min(value), max(value) from read_parquet({valid!r}) where step = 'oltp_read_write-64' "
        "and metric = 'qps' and scope = 'driver:1' group by step_t_s order by step_t_s"
    )
    assert found is not None
    rows = found.fetchall()
    assert len(rows) == 8
    for index, row in enumerate(rows):
        assert [part[index] for part in unpacked] == pytest.approx(list(row), rel=1e-6)


def test_the_page_says_what_was_invalid_and_why(full: tuple[StudyFolder, str, Page]) -> None:
    visible = full[2].visible
    assert "2 of 20 runs are not valid" in visible and "18 of 20 planned runs valid" in visible
    assert "treatment not proved: allocator: malloc binds to libc.so.6" in visible and "not steady: drift" in visible
    assert "does not hold" in visible


def test_the_page_holds_all_that_is_needed_to_repeat_it(full: tuple[StudyFolder, str, Page]) -> None:
    folder, _, page = full
    study, summary = folder.study(), worded(folder)
    for needed in (
        summary.question,
        " ".join(study.command),
        f"Seed {folder.plan().seed}",
        str(study.host["kernel"]),
        "innodb_flush_log_at_trx_commit = 1",
        "sysbench oltp_read_only --threads=16",
        "10.11.14-MariaDB Debian 12",
        "malloc of mariadbd binds to libjemalloc.so.2",
        "VmRSS of the server's process.",
        *study.versions.values(),
    ):
        assert needed in page.visible, needed


def test_only_the_five_verdicts_are_printed_and_secondary_metrics_have_none(
    full: tuple[StudyFolder, str, Page],
) -> None:
    visible = full[2].visible
    assert "exploratory" in visible
    for forbidden in ("no difference", "almost the same", "faster because", "significant"):
        assert forbidden not in visible


def test_the_page_can_be_made_again_and_is_the_same(full: tuple[StudyFolder, str, Page]) -> None:
    folder, text, _ = full
    assert make(folder)[0] == text
    assert not list(folder.path.glob(".report.html*"))


@pytest.mark.slow
def test_a_long_study_stays_below_400_kb(tmp_path: Path) -> None:
    folder = build(tmp_path / "long", Shape(blocks=2, warmup_s=20, measure_s=60))
    text, page = make(folder)
    assert_clean(page)
    assert {"qps", "tps", "cpu_user_pct", "server_rss_bytes"} <= {one["metric"] for one in telemetry_of(text)["series"]}


@pytest.mark.slow
def test_every_metric_is_in_the_table_however_many_there_are(tmp_path: Path) -> None:
    folder = build(tmp_path / "study", Shape(blocks=2, **SHORT))
    summary = json.loads((folder.path / "summary.json").read_text())
    for number in range(60):
        name = f"extra_{number}_bytes_per_s"
        summary["metrics"][name] = summary["metrics"]["disk_write_bytes_per_s"]
        summary["effects"] += [
            {**effect, "metric": name} for effect in summary["effects"] if effect["metric"] == "disk_write_bytes_per_s"
        ]
        for run in summary["runs"]:
            for values in run["values"].values():
                values[name] = values["disk_write_bytes_per_s"]
    (folder.path / "summary.json").write_text(json.dumps(summary))
    text, _ = make(folder)
    assert all(f"Extra {number}" in text for number in range(60))


def test_telemetry_keeps_to_its_budget_by_coarser_buckets_and_says_so(full: tuple[StudyFolder, str, Page]) -> None:
    from mydyno.document.result import StudyResult
    from mydyno.reports.telemetry import CORE, page_data, read_telemetry

    result = StudyResult.load(full[0])
    telemetry = read_telemetry(result, 40_000)
    packed = len(json.dumps(page_data(result, telemetry)))
    assert packed < 60_000
    assert set(CORE) <= {metric for _, metric in telemetry.series}
    assert telemetry.left_out


SHORT: dict[str, Any] = {"warmup_s": 2, "measure_s": 4}
HOSTILE = "<script>alert(1)</script>"


def test_nothing_from_outside_becomes_markup(tmp_path: Path) -> None:
    folder = build(tmp_path / "hostile", Shape(blocks=2, workloads=("oltp_read_only",), connections=(8,), measure_s=4))
    for name in ("summary.json", "study.json"):
        path = folder.path / name
        data = json.loads(path.read_text())
        text = json.dumps(data).replace("Does the memory", f"{HOSTILE}{{{{7*7}}}} & </title>").replace("5.3.0", HOSTILE)
        if name == "summary.json":
            text = text.replace("mimalloc", HOSTILE)
            text = text.replace('"workload": "oltp', '"workload": "x\\" onload=\\"alert(1)')
        path.write_text(text)
    for path in folder.path.glob("blocks/*/*/run.json"):
        path.write_text(path.read_text().replace("Debian 12", HOSTILE).replace("sysbench oltp", HOSTILE + "\\u0000"))
    text, page = make(folder)
    assert page.tags.count("script") == 4, "the data, the library, ours for charts, tables and folds"
    assert HOSTILE not in text
    assert HOSTILE in page.visible and "{{7*7}}" in page.visible and "& </title>" in page.visible
    assert "\x00" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (Shape(blocks=3, connections=(16, 32), finished_runs=7, **SHORT), "not finished: 7 of 15"),
        (Shape(blocks=3, connections=(16,), finished_runs=2, summarise=False, **SHORT), "2 of 15 planned"),
        (Shape(blocks=2, connections=(16,), finished_runs=0, **SHORT), "No run has finished"),
        (
            Shape(
                blocks=1, connections=(16,), **SHORT,
                invalid=dict.fromkeys([(1, n) for n in range(1, 6)], Reason(check="swap", text="1 MB")),
            ),
            "No run of this study is valid",
        ),
        (Shape(blocks=1, workloads=("oltp_read_only",), connections=(32,), **SHORT), "1 block cannot show"),
        (
            Shape(
                blocks=2,
                connections=(16, 32),
                **SHORT,
                absent_metrics=("tps", "server_rss_bytes", "server_vsize_bytes"),
            ),
            "CPU user",
        ),
        (Shape(arms=("glibc",), blocks=2, connections=(16,), **SHORT), "glibc is the only arm"),
    ],
    ids=["partial", "no-summary", "no-run", "none-valid", "single", "absent-metrics", "control-only"],
)  # fmt: skip
def test_what_is_missing_still_makes_an_honest_page(tmp_path: Path, shape: Shape, words: str) -> None:
    _, page = make(build(tmp_path / "study", shape))
    assert_clean(page)
    assert words in page.visible
    for metric in shape.absent_metrics:
        assert not any(metric in chart for chart in page.charts)


def test_runs_without_samples_are_counted_in_the_page(tmp_path: Path) -> None:
    folder = build(tmp_path / "study", Shape(blocks=1, connections=(16,), **SHORT))
    next(folder.path.glob("blocks/*/*/samples.parquet")).unlink()
    assert "1 run has no readable samples.parquet" in make(folder)[1].visible


def test_a_step_that_is_not_valid_is_shown_with_its_reason_and_not_used(tmp_path: Path) -> None:
    step = "oltp_read_only-16"
    shape = Shape(blocks=2, workloads=("oltp_read_only",), connections=(16, 32), **SHORT)
    positions = {
        (run.block, run.position) for run in build(tmp_path / "plan", shape).plan().runs if run.arm == "jemalloc"
    }
    shape = replace(shape, invalid_steps={(*place, step): Reason(check="steady", text="drift") for place in positions})
    folder = build(tmp_path / "study", shape)
    _, page = make(folder)
    assert_clean(page)
    assert "10 of 10 planned runs valid" in page.visible and "2 of their 20 load levels not valid" in page.visible
    assert "not steady (2)" in page.visible and f"{step}: jemalloc" in page.visible
    rows = list(csv.DictReader(io.StringIO(str(reports.write(folder, "csv")))))
    unused = {(row["arm"], row["step"], row["reasons"]) for row in rows if row["valid"] == "false"}
    assert unused == {("jemalloc", step, "not steady: drift")}


def test_without_two_valid_runs_of_the_control_there_is_no_noise_floor(tmp_path: Path) -> None:
    folder = build(tmp_path / "study", Shape(blocks=2, connections=(16,), finished_runs=0, **SHORT))
    assert "there is no noise floor" in make(folder)[1].visible


def test_the_answer_stands_open(full: tuple[StudyFolder, str, Page]) -> None:
    folder, text, _ = full
    summary = worded(folder)
    assert 1 <= len(summary.answer) <= 3
    lead = text.split('<div class="lead">')[1].split("</div>")[0]
    assert lead.count("<p>") == len(summary.answer)
    assert escape(summary.answer[0]).replace(" %", "\u00a0%") in lead


def test_sentences_on_further_metrics_are_set_smaller(full: tuple[StudyFolder, str, Page]) -> None:
    result = StudyResult.load(full[0])
    found = Answer(("first.", "second.", "third."), "scope.", (), further=2)
    text = answer.build(result, found).html
    assert '<p>first.</p>\n<p class="further">second.</p>\n<p class="further">third.</p>' in text


def test_groups_of_one_chart_stand_beside_each_other_unless_folded_or_wide() -> None:
    one, wide = Figure([], css="double"), Figure([], css="full")
    beside = [
        FigureGroup("a", [one]),
        FigureGroup("b", [wide]),
        FigureGroup("c", [one, one]),
        FigureGroup("d", [one], True),
    ]
    assert [group.stands_beside for group in beside] == [True, False, False, False]
    text = Part(id="a", heading="A", body=[Figures(beside)]).html
    assert text.count('<div class="groups">') == 1 and text.count('<div class="alone">') == 1


def test_a_row_heading_has_its_second_line() -> None:
    row = [Cell("jemalloc", below="defined differently"), Cell("+3 %", "num", below="+1 … +5 %")]
    text = Part(id="a", heading="A", body=[Table("Effects", ("arm", "effect"), [row])]).html
    assert '<th scope="row">jemalloc<small>defined differently</small></th>' in text


def test_folded_sections_say_in_one_line_what_they_hold(full: tuple[StudyFolder, str, Page]) -> None:
    visible = full[2].visible
    assert "18 of 20 runs valid, treatment not proved in 1 run (allocator: " in visible
    assert "the control differs from its own copy by up to" in visible
    assert re.search(r"What published studies claim \d (agrees?|undecided|disagrees?)", visible)


def test_claims_of_published_studies_stand_once_and_the_answer_links_to_them(tmp_path: Path) -> None:
    folder = build(tmp_path / "study", Shape(blocks=1, connections=(16,), **SHORT))
    told = [("agrees", "N1"), ("agrees", "N2"), ("cannot tell", "N3")]
    conclusions = tuple(
        ConclusionRecord(
            study="study-4",
            part=part,
            claim="TLS costs about 10 % at one connection",
            answer=answer,
            facts=(fact("ratio", ratio="+1 %"),),
        )
        for answer, part in told
    )
    summary = folder.summary()
    assert summary is not None
    folder.write_summary(summary.model_copy(update={"conclusions": conclusions, "published": ()}))
    text, page = make(folder)
    assert_clean(page)
    assert "Claims of published studies, and what this host shows: 2 agree, 1 undecided" in page.visible
    assert text.index('<a href="#published">Claims of published studies</a>: 2 agree') < text.index('<section id="why"')
    assert text.count("TLS costs about 10 % at one connection (study-4)") == len(told)
    assert "It would take a study at 1 connection: --set 'steps.connections=[1]'." in page.visible
    assert "Network bandwidth, protocol compression and TLS (2019); two bare-metal hosts" in page.visible


def test_the_page_has_six_chapters_and_begins_with_answer_matrix_scope_and_what_would_improve_it(
    full: tuple[StudyFolder, str, Page],
) -> None:
    folder, text, page = full
    places = [
        text.index('<div class="lead">'),
        text.index('class="scroll verdicts"'),
        text.index(">Scope<"),
        text.index("For a more precise answer"),
    ]
    places += [text.index(f'<section id="{name}"') for name in CHAPTERS]
    assert sorted(places[:4]) == places[:4] and sorted(places[4:]) == places[4:]
    assert text.count(escape(worded(folder).scope)) == 1
    assert page.tags.count("section") == len(CHAPTERS)


def test_a_sweep_is_a_matrix_of_arms_and_levels(full: tuple[StudyFolder, str, Page]) -> None:
    matrix = full[1].split('class="scroll verdicts"')[1].split("</table>")[0]
    heads = re.findall(r'<th scope="col">(.*?)</th>', matrix)
    assert heads == ["arm", "16 connections", "64 connections", "128 connections"]
    assert re.findall(r'<th scope="row">(.*?)</th>', matrix) == ["glibc", "jemalloc", "tcmalloc", "mimalloc"]


def test_a_level_of_an_open_loop_is_its_rate() -> None:
    step = StepLevel(id="oltp_read_only-64-at-1500", workload="oltp_read_only", connections=64, rate=1500.0)
    assert (step.level, step.short_level) == ("1,500 transactions/s on 64 connections", "1,500/s")
    assert (step.amount, step.amount_text, step.amount_name) == (1500.0, "1500", "transactions/s")
    closed = StepLevel(id="oltp_read_only-1", workload="oltp_read_only", connections=1)
    assert (closed.level, closed.short_level, closed.amount_text) == ("1 connection", "1 connection", "1")
    assert closed.amount_name == "connections"


def test_an_arm_that_sets_nothing_has_nothing_to_prove(tmp_path: Path) -> None:
    folder = build(tmp_path / "study", Shape(blocks=1, connections=(16,), **SHORT))
    result = StudyResult.load(folder)
    experiment = result.study.experiment
    plain = tuple(arm.model_copy(update={"treatments": {}}) if arm.name == "glibc" else arm for arm in experiment.arms)
    study = result.study.model_copy(update={"experiment": experiment.model_copy(update={"arms": plain})})
    runs = [run.model_copy(update={"evidence": ()}) if run.arm == "glibc" else run for run in result.runs]
    summary = result.summary.model_copy(update={"runs": tuple(runs)})
    section = trust.build_evidence(replace(result, study=study, summary=summary))
    assert "sets nothing" in section.html
    assert "proved in 0 of" not in section.html and "no evidence at all" not in section.html
    assert section.says.endswith("every treatment proved in every run")


@pytest.mark.parametrize(
    ("says", "title"),
    [
        (
            "Waits for redo (log) are 12 µs longer (+8 … +16 µs). Most of it: fsync.",
            "Waits for redo (log) are 12 µs longer",
        ),
        ("2 of 7 variables matter", "2 of 7 variables matter"),
        ("old is fastest at about 48 connections (48 or more).", "old is fastest at about 48 connections (48 or more)"),
        (f"Waits for {'x' * 70} are longer.", ""),
        ("", ""),
    ],
)
def test_a_title_is_the_first_sentence_without_its_interval_where_it_is_short(says: str, title: str) -> None:
    assert Part(id="a", heading="A", says=says).finding == title
