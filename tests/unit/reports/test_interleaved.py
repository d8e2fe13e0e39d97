"""The report of an interleaved study: the answer's table, slices over time, the adjustment."""

from __future__ import annotations

import csv
import io
import itertools
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from mydyno import reports
from mydyno.analysis.base import Examined
from mydyno.analysis.factors import part
from mydyno.analysis.factors.effects import analyse
from mydyno.document.parts import Cell, Figures, legend
from mydyno.document.result import StudyResult
from mydyno.evaluation.answer import answer_of
from mydyno.model.definition.experiment import StepSpec
from mydyno.reports.verdicts import verdict_cell, verdicts_of
from mydyno.results.families import families
from mydyno.store.samples import SLICES_FILE
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.numbers import signed_percent
from mydyno.wording.verdicts import absolute
from tests.support.fake_interleaved_folder import COST, FACTORS, PLANTED, Interleaved, build
from tests.support.fake_observations import decide
from tests.support.fake_script import experiment
from tests.support.worded import worded
from tests.unit.analysis import (
    test_host_groups_report,
    test_kernel_report,
    test_profiles_report,
    test_statements,
    test_waits_report,
)
from tests.unit.reports.test_html import Page, assert_clean, make

STEPS = ("oltp_read_only-64", "oltp_read_write-64")
REASON = "mariadbd ended with signal 11"
SMALL = Interleaved(cycles=4)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyFolder, str, Page]:
    folder = build(tmp_path_factory.mktemp("studies") / "allocators-interleaved", SMALL)
    return folder, *make(folder)


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyFolder, str, Page]:
    shape = Interleaved(cycles=4, failures=dict.fromkeys([(2, "tcmalloc"), (5, "tcmalloc")], REASON))
    folder = build(tmp_path_factory.mktemp("studies") / "allocators-failed", shape)
    return folder, *make(folder)


@pytest.fixture(scope="module")
def factors(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyFolder, str, Page]:
    planted = {
        name: (-0.66 if "zlib" in name else -0.05 if "tls" in name else 0.0, 1.4 if "zlib" in name else 0.0)
        for name in FACTORS
    }
    shape = Interleaved(planted=planted, treatments=FACTORS, workloads=("oltp_read_only",), cycles=3)
    folder = build(tmp_path_factory.mktemp("studies") / "network-interleaved", shape)
    return folder, *make(folder)


def test_the_page_is_clean_and_has_the_chapters_in_order(study: tuple[StudyFolder, str, Page]) -> None:
    _, text, page = study
    assert_clean(page)
    places = [text.index(f'<section id="{name}"') for name in ("answer", "why", "over-time", "trust", "repeat")]
    assert places == sorted(places)
    assert '<section id="load"' not in text, "each workload has one level of load"


def test_the_table_has_effect_interval_and_verdict_of_throughput_and_cost(study: tuple[StudyFolder, str, Page]) -> None:
    folder = study[0]
    result = StudyResult.load(folder)
    table = verdicts_of(result)
    assert table is not None and table.columns == ["QPS", "CPU per query"] and not table.grids
    of_steps = [list(arms.items()) for arms in table.by_step.values()]
    assert list(map(len, of_steps)) == [4, 4], "the control with its absolute values, and three arms"
    for step, of_step in zip(STEPS, of_steps, strict=True):
        for arm, cells in of_step[1:]:
            for metric, cell in zip(("qps", COST), cells, strict=True):
                (effect,) = (one for one in result.effects(metric, step) if one.arm == arm)
                assert cell.word == effect.verdict
                assert effect.ratio is not None
                number = float(cell.text.replace("−", "-").rstrip("\u202f %"))
                assert number == pytest.approx(100 * (effect.ratio - 1), abs=0.051)
                assert " … " in cell.below
    better = {cell.css for of_step in of_steps for _, cells in of_step for cell in cells if cell.word == "higher"}
    assert better == {"verdict better"}


@pytest.mark.parametrize(("half", "explained"), [(0.019, False), (0.024, True)])
def test_an_equivalent_effect_with_an_interval_beyond_the_margin_is_explained(
    study: tuple[StudyFolder, str, Page], half: float, explained: bool
) -> None:
    result = StudyResult.load(study[0])
    changes = {"verdict": "equivalent", "ratio": 1.0, "ci_low": 1 - half, "ci_high": 1 + half}
    effects = tuple(one.model_copy(update=changes if one.metric == "qps" else {}) for one in result.summary.effects)
    summary = result.summary.model_copy(update={"effects": effects, "alpha": 0.03125})
    table = verdicts_of(replace(result, summary=summary))
    assert table is not None
    note = (
        "Equivalent: the 93.8\u202f% interval of the comparison by itself is within ±margin (two one-sided tests); the "
        "simultaneous interval is wider."
    )
    assert (note in table.notes) == explained


def test_the_picture_has_values_changes_and_verdicts(study: tuple[StudyFolder, str, Page]) -> None:
    folder, text, _ = study
    result = StudyResult.load(folder)
    chart = unescape(text.split('data-chart="answer"')[1].split("</svg>")[0])
    assert answer_of(result).answer[0] in chart.split("</title>")[0], "the alternative text is the finding"
    labels = re.findall(r'<text class="t label"[^>]*>(.*?)</text>', chart)
    assert len(labels) == len(STEPS) * 3 * 3, "three arms, in throughput, CPU per query and p99"
    judged = [label for label in labels if re.search(r"[▲▼≈?∅] ", label)]
    assert len(judged) == len(STEPS) * 3 * 2 and all(
        re.search(r"higher|lower|equivalent|inconclusive", one) for one in judged
    )
    for step in STEPS:
        for arm in ("jemalloc", "tcmalloc", "mimalloc"):
            (effect,) = (one for one in result.effects("qps", step) if one.arm == arm)
            assert any(label.startswith(signed_percent((effect.ratio or 1.0) - 1)) for label in labels)
        assert absolute(result, "qps", step, "glibc", digits=4) in chart
    assert 'data-chart="answer-narrow"' in text or 'data-chart="answer:narrow"' in text


def test_a_failed_arm_is_failed_in_the_table_and_has_no_number(failed: tuple[StudyFolder, str, Page]) -> None:
    folder, _, page = failed
    assert_clean(page)
    found = verdicts_of(StudyResult.load(folder))
    assert found is not None
    cells = [cell for arms in found.by_step.values() for cell in arms["tcmalloc"]]
    assert {(cell.symbol, cell.text, cell.below) for cell in cells} == {("✕", "failed", "2 of 6 blocks")}
    assert worded(folder).answer[-1] == f"tcmalloc failed in 2 of 6 blocks ({REASON})."
    assert "an arm failed in 2 runs" in page.visible
    markdown = str(reports.write(folder, "md"))
    assert "| tcmalloc | ✕ failed (2 of 6 blocks) | ✕ failed (2 of 6 blocks) |" in markdown


def test_a_contrast_without_a_number_says_its_verdict_once() -> None:
    cell = verdict_cell("not_measurable", "not measurable", "", "none")
    assert (cell.symbol, cell.word) == ("∅", "")
    assert verdict_cell("lower", "−4.0 %", "", "worse").word == "lower"


def test_csv_has_failures_and_unadjusted_values(failed: tuple[StudyFolder, str, Page]) -> None:
    rows = list(csv.DictReader(io.StringIO(str(reports.write(failed[0], "csv")))))
    without = [row for row in rows if not row["metric"]]
    assert {(row["arm"], row["block"], row["valid"], row["reasons"]) for row in without} == {
        ("tcmalloc", block, "false", f"the arm failed: {REASON}") for block in ("2", "5")
    }
    qps = [row for row in rows if row["metric"] == "qps"]
    assert qps and all(float(row["unadjusted"]) > 0 and row["unadjusted"] != row["value"] for row in qps)


def test_twelve_arms_of_factors_are_a_grid(factors: tuple[StudyFolder, str, Page]) -> None:
    folder, text, page = factors
    assert_clean(page)
    table = verdicts_of(StudyResult.load(folder))
    assert table is not None and not table.steps and len(table.grids) == 2
    grid = table.grids[0]
    assert (grid.heads, grid.head) == (2, ("network", "tls", "raw", "zlib"))
    assert [row[:2] for row in grid.rows][:3] == [("10gbit", "plain"), ("10gbit", "tls"), ("1gbit", "plain")]
    cells = [[cell for cell in row[2:] if isinstance(cell, Cell)] for row in grid.rows]
    assert [row[0].text[:8] == "control " for row in cells] == [True, *[False] * 5]
    assert all(row[1].word == "lower" for row in cells)
    control = r'<td class="verdict control"><b>control [\d.]+\W[^<]+</b></td>'
    assert len(re.findall(control, text)) == 2
    assert "**network**" not in str(reports.write(folder, "md"))
    assert "| network | tls | raw | zlib |" in str(reports.write(folder, "md"))
    assert worded(folder).answer[0].startswith("All 6 arms with zlib serve fewer queries than ")


def test_every_slice_is_drawn_at_its_time_with_the_host_below(study: tuple[StudyFolder, str, Page]) -> None:
    folder, text, _ = study
    found = StudyResult.load(folder).slices
    assert not found.missing
    assert list(found.blocks) == [1, 2, 3, 4, 5, 6]
    assert all(a.ends_s < b.begins_s for a, b in itertools.pairwise(found.blocks.values()))
    for step in STEPS:
        assert len(found.of_step(step)) == 6 * 4 * 5
        times = [found.at(one) for one in found.of_step(step)]
        assert times == sorted(times)
        assert all(found.blocks[one.block].begins_s < found.at(one) < found.blocks[one.block].ends_s
                   for one in found.of_step(step))  # fmt: skip
    chart = unescape(text.split('data-chart="clock"')[1].split("</svg>")[0])
    marks = sum(path.count("M") for path in re.findall(r'<path class="slice" d="([^"]*)"', chart))
    assert marks == 2 * 6 * 4 * 4, "every arm's first copy in both steps; triangles, circles, … are one M each"
    assert re.findall(r">(CPU time of other programs|Steal)<", chart) == ["CPU time of other programs", "Steal"]


def test_missing_or_damaged_slices_are_named_and_the_page_is_made(tmp_path: Path) -> None:
    folder = build(tmp_path / "study", Interleaved(cycles=2))
    (folder.path / "blocks/03" / SLICES_FILE).unlink()
    path = folder.path / "blocks/05" / SLICES_FILE
    path.write_text(path.read_text()[:-30])
    _, page = make(folder)
    assert_clean(page)
    assert "block 3 has no slices" in page.visible and "slices.jsonl, line" in page.visible
    assert "clock" in page.charts


@pytest.mark.slow
def test_a_long_study_stays_below_400_kb(tmp_path: Path) -> None:
    folder = build(tmp_path / "study", Interleaved(blocks=40, planned=40, cycles=25))
    text, page = make(folder)
    assert_clean(page)
    assert "Only one cycle in 4 is drawn" in page.visible
    chart = text.split('data-chart="clock"')[1].split("</svg>")[0]
    marks = sum(path.count("M") for path in re.findall(r'<path class="dot" d="([^"]*)"', chart))
    assert marks == 2 * 40 * 7 * 5, "cycles 1, 5, … 25 of every arm and of the copy, in two steps"


def test_the_effects_without_the_adjustment_stand_once_in_the_page(study: tuple[StudyFolder, str, Page]) -> None:
    folder, _, page = study
    visible = page.visible
    assert visible.count("The adjustment for the host's speed moved these effects by ") == 1
    result = StudyResult.load(folder)
    verdicts = verdicts_of(result)
    assert verdicts is not None and verdicts.adjustment is not None
    rows = verdicts.adjustment.rows
    assert [row[0] for row in rows if len(row) == 1] == [result.step_heading(step) for step in result.steps]
    assert len(rows) == 2 + 2 * 2 * 3, "two steps, two metrics, three arms"
    (effect,) = [one for one in result.effects("qps", STEPS[0]) if one.arm == "jemalloc"]
    assert effect.ratio is not None and effect.unadjusted is not None
    (row,) = [row for row in rows[:7] if tuple(row[:2]) == ("QPS", "jemalloc")]
    plain, adjusted, moved = (cell for cell in row[2:] if isinstance(cell, Cell))
    assert plain.text == signed_percent(effect.unadjusted[0] - 1) and " … " in plain.below
    assert adjusted.text == signed_percent(effect.ratio - 1)
    assert moved.text == signed_percent(effect.ratio / effect.unadjusted[0] - 1)
    in_markdown = " ".join(f"| QPS | jemalloc | {plain.text} ({plain.below}) | {adjusted.text} |".split())
    assert in_markdown in " ".join(str(reports.write(folder, "md")).split())
    assert "the load program's CPU time per query in the slices of other arms around and the share of" in visible


def test_before_the_first_look_there_is_no_table_and_no_verdict(tmp_path: Path) -> None:
    folder = build(tmp_path / "early", Interleaved(blocks=3, cycles=2))
    text, page = make(folder)
    assert_clean(page)
    assert "No answer yet: 3 of 6 blocks; continue with: mydyno resume early --time" in page.visible
    assert 'class="scroll verdicts"' not in text
    assert not re.search(r"[▲▼] (higher|lower)", page.visible)
    assert "answer" not in page.charts


def test_factors_have_lines_effects_and_a_note_on_what_is_averaged(
    factors: tuple[StudyFolder, str, Page], tmp_path: Path
) -> None:
    folder = StudyFolder(shutil.copytree(factors[0].path, tmp_path / "study"))
    summary, of = folder.summary(), folder.study().experiment
    assert summary is not None and 'id="factors"' not in factors[1], "a study of an earlier version has none"
    of = of.model_copy(update={"verdict": of.verdict.model_copy(update={"primary": ("qps",)})})
    before = tuple(run.model_copy(update={"values": run.unadjusted}) for run in summary.runs)
    record, plain = (
        analyse(Examined(experiment=of, runs=runs, families=list(families(of, runs, ("qps",))), alpha=summary.alpha))
        for runs in (summary.runs, before)
    )
    assert record is not None and plain is not None
    folder.write_summary(summary.model_copy(update={"factors": record}))
    text, page = make(folder)
    assert_clean(page)
    assert "factors:network:qps:oltp_read_only-64" in page.charts
    section = text[text.index('id="factors"') : text.index('<section id="why"')]
    assert "10 Gbit/s" in section and "compression: raw → zlib" in section
    assert "Main effects" in section and "Interactions" in section
    (effect,) = (one for one in plain.effects if (one.kind, one.level, one.at) == ("at", "zlib", "100mbit"))
    assert size_of_zlib_at_100mbit(folder).below == f"plain {signed_percent(effect.ratio - 1)}"
    assert "each has a false difference in at most 5 % of studies" in page.visible.replace("\u202f", " ")
    assert "means over the combinations of the factors" in str(reports.write(folder, "md"))
    effects = tuple(
        one.model_copy(update={"unadjusted": None}) if one.arm.startswith("100mbit") else one for one in summary.effects
    )
    folder.write_summary(summary.model_copy(update={"factors": record, "effects": effects}))
    assert not size_of_zlib_at_100mbit(folder).below, "what the adjustment moved there is not known"


def size_of_zlib_at_100mbit(folder: StudyFolder) -> Cell:
    found = part(StudyResult.load(folder))
    assert found is not None
    (table,) = (one.groups[0].figures[0].table for one in found.body if isinstance(one, Figures))
    (cell,) = (row[2] for row in table.rows if row[:2] == ["compression: raw → zlib", "100 Mbit/s"])
    assert isinstance(cell, Cell)
    return cell


def test_throughput_has_one_value_on_the_page_of_which_the_effect_is_the_ratio(
    study: tuple[StudyFolder, str, Page],
) -> None:
    folder, text, _ = study
    result = StudyResult.load(folder)
    (family,) = families(result.study.experiment, result.summary.runs, ("qps",))
    for effect in decide(family):
        arm, control = (result.level_of("qps", effect.step, name) for name in (effect.arm, effect.control))
        assert arm and control and effect.ratio == pytest.approx(arm / control, rel=1e-9)
    expected = absolute(result, "qps", STEPS[0], "glibc", digits=4)
    values = text[text.index('id="metrics"') : text.index('<section id="over-time"')]
    assert expected in values and expected in text[: text.index('<section id="why"')], "in the table as in the picture"


def test_every_metric_that_is_judged_has_its_margin(study: tuple[StudyFolder, str, Page]) -> None:
    result = StudyResult.load(study[0])
    verdict = result.study.experiment.verdict
    assert result.margin_of("qps") == result.margin_of(COST) == verdict.margin, "CPU per query has verdicts"
    assert result.margin_of("latency_p99_us") == verdict.latency_margin and result.margin_of("tps") is None


def test_second_copies_of_treated_arms_are_named_and_drawn_like_the_controls(tmp_path: Path) -> None:
    folder = build(
        tmp_path / "studies" / "allocators-twice",
        replace(SMALL, planted={"glibc": (0.0, 0.0), "jemalloc": (0.03, 0.0)}, copies=2),
    )
    _, page = make(folder)
    result = StudyResult.load(folder)
    assert list(result.lane_styles) == [("glibc", 1), ("jemalloc", 1), ("glibc", 2), ("jemalloc", 2)]
    assert result.lane_styles["jemalloc", 2].label == "jemalloc again"
    assert "jemalloc again" in legend(result, with_copy=True) and "again" not in legend(result, with_copy=False)
    (effect,) = [one for one in result.summary.effects if one.metric == "qps" and one.step == STEPS[0]]
    assert effect.n == 6 and effect.details.method == "pooled"
    assert_clean(page)


def with_statements(path: Path) -> StudyFolder:
    folder = build(path, Interleaved(planted={"old": (0.0, 0.0), "new": (0.0, 0.0)}))
    test_statements.write(folder, (*test_statements.PLANTED, *test_statements.SAME))
    summary = folder.summary()
    assert summary is not None
    folder.write_summary(summary.model_copy(update={"statements": test_statements.examined(folder)}))
    return folder


def of_a_sweep(path: Path) -> StudyFolder:
    swept = [StepSpec(workload=one, connections=(4, 8, 16, 32, 64)) for one in ("oltp_read_only", "oltp_read_write")]
    design = {"kind": "interleaved", "blocks": 6, "cycles": 4, "time": 600}
    return build(path, replace(SMALL, experiment=experiment(tuple(PLANTED), steps=swept, design=design)))


MADE: dict[str, Callable[[Path], StudyFolder]] = {
    "waits": lambda path: test_waits_report.folder(path, test_waits_report.record(test_waits_report.MUTEXES)),
    "kernel": lambda path: test_kernel_report.folder(path, test_kernel_report.record(test_kernel_report.QUEUE)),
    "profile": lambda path: test_profiles_report.profiled(path, test_profiles_report.record(test_profiles_report.SPIN)),
    "hosts": lambda path: test_host_groups_report.made(path, test_host_groups_report.TWO),
    "statements": with_statements,
    "sweep": of_a_sweep,
}


@pytest.mark.parametrize("kind", MADE)
def test_a_page_has_few_folds_and_charts_whatever_it_shows(kind: str, tmp_path: Path) -> None:
    assert_clean(make(MADE[kind](tmp_path / "study"))[1])


def test_the_slices_of_one_server_are_not_said_to_be_of_several(
    study: tuple[StudyFolder, str, Page], tmp_path: Path
) -> None:
    waiting = "s of load on one server, while the others wait"
    assert waiting in study[1]
    folder = StudyFolder(Path(shutil.copytree(study[0].path, tmp_path / "switched")))
    summary = folder.summary()
    assert summary is not None
    folder.write_summary(summary.model_copy(update={"design": "switchback"}))
    text, _ = make(folder)
    assert "s of load under one arm&#39;s settings" in text and waiting not in text
