"""The report of an interleaved study: the answer's table, slices over time, each block's number, the adjustment."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from mydyno import reports
from mydyno.reports.result import StudyResult
from mydyno.reports.slices import read_study_slices
from mydyno.results.factors import factors_record
from mydyno.results.families import families
from mydyno.store.slices import SLICES_FILE
from mydyno.store.study_folder import StudyFolder
from mydyno.verdicts.decide import decide
from mydyno.wording.full_sentences import full_sentences
from mydyno.wording.verdict_table import VerdictCell, verdict_table
from tests.support.fake_interleaved_folder import COST, FACTORS, PLANTED, Interleaved, build
from tests.support.worded import worded
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


def test_the_page_is_clean_and_has_the_sections_in_order(study: tuple[StudyFolder, str, Page]) -> None:
    _, text, page = study
    assert_clean(page)
    order = ("answer", "effects", "adjusted", "slices", "blocks", "connections", "noise", "evidence", "repeat")
    places = [text.index(f'<section id="{name}"') for name in order]
    assert places == sorted(places)
    opened = text.split('<details class="section">')[0]
    assert all(f'<section id="{name}"' in opened for name in order[:5])
    assert '<section id="evidence"' not in opened and '<section id="repeat"' not in opened


def test_the_table_has_effect_interval_and_verdict_of_throughput_and_cost(study: tuple[StudyFolder, str, Page]) -> None:
    folder = study[0]
    result = StudyResult.load(folder)
    table = verdict_table(result)
    assert table is not None and table.columns == ("QPS", "CPU per query") and not table.grids
    assert [len(step.rows) for step in table.steps] == [4, 4], "the control with its absolute values, and three arms"
    for step, of_step in zip(STEPS, table.steps, strict=True):
        for arm, cells in of_step.rows[1:]:
            for metric, cell in zip(("qps", COST), cells, strict=True):
                (effect,) = (one for one in result.effects(metric, step) if one.arm == arm)
                assert cell.word == effect.verdict
                assert effect.ratio is not None
                number = float(cell.effect.replace("−", "-").rstrip("\u202f %"))
                assert number == pytest.approx(100 * (effect.ratio - 1), abs=0.051)
                assert " … " in cell.interval
    better = {cell.css for step in table.steps for _, cells in step.rows for cell in cells if cell.word == "higher"}
    assert better == {"better"}


@pytest.mark.parametrize(("half", "explained"), [(0.019, False), (0.024, True)])
def test_an_equivalent_effect_with_an_interval_beyond_the_margin_is_explained(
    study: tuple[StudyFolder, str, Page], half: float, explained: bool
) -> None:
    result = StudyResult.load(study[0])
    changes = {"verdict": "equivalent", "ratio": 1.0, "ci_low": 1 - half, "ci_high": 1 + half}
    effects = tuple(one.model_copy(update=changes if one.metric == "qps" else {}) for one in result.summary.effects)
    summary = result.summary.model_copy(update={"effects": effects, "alpha": 0.03125})
    table = verdict_table(replace(result, summary=summary))
    assert table is not None
    note = (
        "Equivalent: the 93.8\u202f% interval of the comparison by itself is within ±margin (two one-sided tests); the "
        "simultaneous interval is wider."
    )
    assert (note in table.notes) == explained


def test_words_stand_beside_colours(study: tuple[StudyFolder, str, Page]) -> None:
    cells = re.findall(r'<td class="verdict (?!control)[^"]*">(.*?)</td>', study[1])
    assert len(cells) == 12
    for cell in cells:
        assert re.search(r"higher|lower|equivalent|inconclusive|not measurable|failed", cell)
        assert 'class="symbol" aria-hidden="true"' in cell


def test_a_failed_arm_is_failed_in_the_table_and_has_no_number(failed: tuple[StudyFolder, str, Page]) -> None:
    folder, _, page = failed
    assert_clean(page)
    table = verdict_table(StudyResult.load(folder))
    assert table is not None
    cells = [cell for step in table.steps for name, row in step.rows if name == "tcmalloc" for cell in row]
    assert {(cell.word, cell.effect, cell.interval) for cell in cells} == {("failed", "failed", "2 of 6 blocks")}
    assert worded(folder).answer[-1] == f"tcmalloc failed in 2 of 6 blocks ({REASON})."
    assert "an arm failed in 2 runs" in page.visible
    markdown = str(reports.write(folder, "md"))
    assert "| tcmalloc | ✕ **failed** (2 of 6 blocks) | ✕ **failed** (2 of 6 blocks) |" in markdown


def test_a_contrast_without_a_number_says_its_verdict_once() -> None:
    cell = VerdictCell("not_measurable", "not measurable", "", "none")
    assert (cell.symbol, cell.verdict) == ("∅", "")
    assert VerdictCell("lower", "−4.0 %").verdict == "lower"


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
    table = verdict_table(StudyResult.load(folder))
    assert table is not None and not table.steps and len(table.grids) == 2
    grid = table.grids[0]
    assert grid.row_factors == ("network", "tls") and grid.columns == ("raw", "zlib")
    assert [levels for levels, _ in grid.rows][:3] == [("10gbit", "plain"), ("10gbit", "tls"), ("1gbit", "plain")]
    assert [cells.index(None) for _, cells in grid.rows if None in cells] == [0], "the control is in one cell"
    words = {levels: [cell.word if cell else "" for cell in cells] for levels, cells in grid.rows}
    assert all(of_row[1] == "lower" for of_row in words.values())
    assert len(re.findall(r'<td class="verdict control">control<small>[\d.]+\W[^<]+</small></td>', text)) == 2
    assert "**network**" not in str(reports.write(folder, "md"))
    assert "| network | tls | raw | zlib |" in str(reports.write(folder, "md"))
    assert worded(folder).answer[0].startswith("All 6 arms with zlib serve fewer queries than ")


def test_every_slice_is_drawn_at_its_time_with_the_host_below(study: tuple[StudyFolder, str, Page]) -> None:
    folder, text, page = study
    assert {f"slices:{step}" for step in STEPS} <= page.charts
    found = read_study_slices(StudyResult.load(folder))
    assert not found.missing
    for step in STEPS:
        segments = found.segments[step]
        assert [segment.block for segment in segments] == [1, 2, 3, 4, 5, 6]
        assert sum(len(segment.slices) for segment in segments) == 6 * 4 * 5
        times = [segment.at(one) for segment in segments for one in segment.slices]
        assert times == sorted(times)
        assert all(a.ends_s < b.begins_s for a, b in itertools.pairwise(segments))
    chart = unescape(text.split('data-chart="slices:oltp_read_only-64"')[1].split("</svg>")[0])
    marks = sum(path.count("M") for path in re.findall(r'<path class="slice" d="([^"]*)"', chart))
    assert marks == 6 * 4 * 4, "every arm's first copy; triangles, circles, … are one M each"
    assert re.findall(r">(Load program's CPU per query|Speed meter|Steal)<", chart) == [
        "Load program's CPU per query", "Speed meter", "Steal"]  # fmt: skip


def test_without_a_speed_meter_there_is_no_line_of_it(tmp_path: Path) -> None:
    folder = build(tmp_path / "study", Interleaved(cycles=2, speed_meter=False, workloads=("oltp_read_only",)))
    chart = make(folder)[0].split('data-chart="slices:oltp_read_only-64"')[1].split("</svg>")[0]
    assert "Speed meter" not in chart and "Steal" in chart


def test_missing_or_damaged_slices_are_named_and_the_page_is_made(tmp_path: Path) -> None:
    folder = build(tmp_path / "study", Interleaved(cycles=2))
    (folder.path / "blocks/03" / SLICES_FILE).unlink()
    path = folder.path / "blocks/05" / SLICES_FILE
    path.write_text(path.read_text()[:-30])
    _, page = make(folder)
    assert_clean(page)
    assert "block 3 has no slices" in page.visible and "slices.jsonl, line" in page.visible
    assert f"slices:{STEPS[0]}" in page.charts


@pytest.mark.slow
def test_a_long_study_stays_below_two_megabytes(tmp_path: Path) -> None:
    folder = build(tmp_path / "study", Interleaved(blocks=40, planned=40, cycles=25))
    text, page = make(folder)
    assert_clean(page)
    assert len(text.encode()) < 2_000_000
    assert "Only one cycle in 2 is drawn" in page.visible
    chart = text.split('data-chart="slices:oltp_read_only-64"')[1].split("</svg>")[0]
    marks = sum(path.count("M") for path in re.findall(r'<path class="dot" d="([^"]*)"', chart))
    assert marks == 40 * 13 * 5, "cycles 1, 3, … 25 of every arm and of the copy"


def test_each_blocks_number_and_the_copy_are_drawn(study: tuple[StudyFolder, str, Page]) -> None:
    folder, text, page = study
    assert f"blocks:qps:{STEPS[0]}" in page.charts and f"blocks:{COST}:{STEPS[1]}" in page.charts
    chart = text.split(f'data-chart="blocks:qps:{STEPS[0]}"')[1].split("</svg>")[0]
    assert chart.count("<title>block") == 6 * 4, "three arms and the control's copy in six blocks"
    summary = folder.summary()
    assert summary is not None
    (effect,) = (one for one in summary.effects if (one.metric, one.step, one.arm) == ("qps", STEPS[0], "jemalloc"))
    share = math.exp((effect.details.log_ratios or {})[2]) - 1
    assert f"block 2, jemalloc: {share * 100:+.1f}" in chart


def test_adjusted_and_unadjusted_stand_side_by_side(study: tuple[StudyFolder, str, Page]) -> None:
    folder, text, page = study
    assert "adjusted:qps" in page.charts
    chart = text.split('data-chart="adjusted:qps"')[1].split("</svg>")[0]
    assert chart.count('class="before"') == len(STEPS) * (len(PLANTED) - 1)
    assert "narrower by" in page.visible and re.search(r"×\d", page.visible)
    assert "the load program&#39;s CPU time per query and the share of CPU time not used by " in text
    assert folder.summary() is not None


def test_before_the_first_look_there_is_no_table_and_no_verdict(tmp_path: Path) -> None:
    folder = build(tmp_path / "early", Interleaved(blocks=3, cycles=2))
    text, page = make(folder)
    assert_clean(page)
    assert "No answer yet: 3 of 6 blocks; continue with: mydyno resume early --time" in page.visible
    assert 'class="scroll verdicts"' not in text
    assert not re.search(r"[▲▼] (higher|lower)", page.visible)
    assert "No look is due yet." in page.visible and not any(chart.startswith("forest:") for chart in page.charts)
    assert not any(effect.sentence in page.visible for effect in worded(folder).effects)


def test_a_study_of_blocks_has_none_of_these_sections(tmp_path: Path) -> None:
    from tests.support.fake_study_folder import Shape
    from tests.support.fake_study_folder import build as build_blocks

    text, _ = make(build_blocks(tmp_path / "blocks", Shape(blocks=1, connections=(16,), warmup_s=2, measure_s=4)))
    assert not any(f'<section id="{name}"' in text for name in ("adjusted", "slices", "blocks"))


def test_factors_have_lines_effects_and_a_note_on_what_is_averaged(
    factors: tuple[StudyFolder, str, Page], tmp_path: Path
) -> None:
    folder = StudyFolder(shutil.copytree(factors[0].path, tmp_path / "study"))
    summary, of = folder.summary(), folder.study().experiment
    assert summary is not None and '<section id="factors"' not in factors[1], "a study of an earlier version has none"
    of = of.model_copy(update={"verdict": of.verdict.model_copy(update={"primary": ("qps",)})})
    record = factors_record(of, summary.runs, list(families(of, summary.runs, ("qps",))), summary.alpha, False)
    assert record is not None
    folder.write_summary(summary.model_copy(update={"factors": record}))
    text, page = make(folder)
    assert_clean(page)
    assert "factors:network:qps:oltp_read_only-64" in page.charts
    section = text[text.index('<section id="factors"') : text.index('<section id="effects"')]
    assert "10 Gbit/s" in section and "compression: raw → zlib" in section
    assert "Main effects" in section and "Interactions" in section
    assert "means over the combinations of the factors" in str(reports.write(folder, "md"))


def test_throughput_has_one_value_on_the_page_of_which_the_effect_is_the_ratio(
    study: tuple[StudyFolder, str, Page],
) -> None:
    folder, text, page = study
    result = StudyResult.load(folder)
    (family,) = families(result.study.experiment, result.summary.runs, ("qps",))
    for effect in decide(family):
        arm, control = (result.level_of("qps", effect.step, name) for name in (effect.arm, effect.control))
        assert arm and control and effect.ratio == pytest.approx(arm / control, rel=1e-9)
    values = text[text.index('<section id="connections"') : text.index('<section id="noise"')]
    shown = re.search(r">QPS, k/s</th>.*?>([\d.]+)<", values, re.DOTALL)
    expected = (result.level_of("qps", STEPS[0], "glibc") or 0) / 1000
    assert shown and float(shown[1]) == pytest.approx(expected, abs=0.006)
    assert "throughput, per second" not in page.visible and "<svg" not in values


def test_an_interleaved_study_has_no_order_of_runs(study: tuple[StudyFolder, str, Page]) -> None:
    _, _, page = study
    assert not [name for name in page.charts if name.startswith(("order:", "position:"))]
    assert "F test" not in page.visible and "not for a decision" not in page.visible
    assert "in order of execution" not in page.visible and "the control differs from its own copy" in page.visible


def test_every_metric_that_is_judged_has_its_margin(study: tuple[StudyFolder, str, Page]) -> None:
    result = StudyResult.load(study[0])
    verdict = result.study.experiment.verdict
    assert result.margin_of("qps") == result.margin_of(COST) == verdict.margin, "CPU per query has verdicts"
    assert result.margin_of("latency_p99_us") == verdict.latency_margin and result.margin_of("tps") is None
    cells = [effect for effect in result.effects(COST) if effect.verdict]
    assert cells
    same = cells[0].model_copy(update={"verdict": "equivalent"})
    changed = result.summary.model_copy(update={"effects": (same,)})
    assert "±0" not in "".join(full_sentences(replace(result, summary=changed)))
