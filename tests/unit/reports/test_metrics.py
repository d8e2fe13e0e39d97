"""The table of all metrics: its rows, their order, and what is bold."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from mydyno.document.result import StudyResult
from mydyno.model.stored.reasons import fact
from mydyno.model.stored.summary import EffectDetails, EffectRecord
from mydyno.reports.sections import metrics
from mydyno.reports.sections.metrics import size_over_noise
from tests.support import fake_interleaved_folder
from tests.support.fake_study_folder import Shape, build


def effect(ratio: float | None, low: float | None = None, high: float | None = None) -> EffectRecord:
    fields = {"metric": "qps", "step": "s", "arm": "B", "control": "A", "n": 6, "p": None, "verdict": None}
    return EffectRecord(**fields, ratio=ratio, ci_low=low, ci_high=high)


def test_the_size_over_noise_is_the_effect_by_the_half_of_its_interval() -> None:
    assert size_over_noise(effect(2.0, 0.5, 8.0)) == pytest.approx(0.5)
    assert size_over_noise(effect(0.5, 0.4, 0.625)) == pytest.approx(size_over_noise(effect(2.0, 1.6, 2.5)))
    assert size_over_noise(effect(1.1, 1.1, 1.1)) == inf and size_over_noise(effect(1.0, 1.0, 1.0)) == 0.0
    assert size_over_noise(effect(2.0)) == size_over_noise(effect(None)) == 0.0


def test_an_interval_excludes_one_on_either_side() -> None:
    assert effect(1.1, 1.01, 1.2).excludes_no_change and effect(0.9, 0.8, 0.99).excludes_no_change
    assert not effect(1.1, 0.9, 1.3).excludes_no_change and not effect(1.1).excludes_no_change


def test_each_metric_has_one_row_a_level_with_the_controls_value_and_each_change(tmp_path: Path) -> None:
    folder = fake_interleaved_folder.build(tmp_path / "study", fake_interleaved_folder.Interleaved(cycles=2))
    result = StudyResult.load(folder)
    section = metrics.build(result)
    assert section is not None
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</tr>", section.html)
    assert len(rows) == len(result.metrics) * len(result.steps)
    assert [row.split("<")[0] for row in rows[:4]] == ["QPS", "QPS"] + 2 * ["CPU per query, server"]
    assert all(row.count("<td") == 1 + len(result.arms) for row in rows), "load level, control, three arms"
    (first,) = (one for one in result.effects("qps", result.steps[0].id) if one.arm == "jemalloc")
    assert ("strong" in rows[0].split("<td")[3]) == first.excludes_no_change
    assert '<table class="sortable">' in section.html


def test_why_a_verdict_is_not_given_stands_below_the_change(tmp_path: Path) -> None:
    folder = fake_interleaved_folder.build(tmp_path / "study", fake_interleaved_folder.Interleaved(cycles=2))
    result = StudyResult.load(folder)
    first, *others = result.effects("qps", result.steps[0].id)
    apart = EffectDetails(p_adjusted_permutation=0.03, facts=(fact("permutation_alone"),))
    open_ = first.model_copy(update={"verdict": "inconclusive", "details": apart})
    lost = others[0].model_copy(update={
        "verdict": "not_measurable", "ratio": None, "n": 0, "details": EffectDetails(lost={"jemalloc: not steady": 6}),
    })  # fmt: skip
    summary = result.summary.model_copy(update={"effects": (open_, lost)})
    section = metrics.build(replace(result, summary=summary))
    assert section is not None
    assert "the permutation test alone finds a difference, the interval does not" in section.html
    assert "no block has a valid run of both arms: jemalloc: not steady (6 blocks)" in section.html


def test_a_long_table_has_one_level_of_the_further_metrics(tmp_path: Path) -> None:
    result = StudyResult.load(build(tmp_path / "study", Shape(blocks=2, warmup_s=2, measure_s=4)))
    whole = metrics.rows_of(result, result.metrics, result.summary.effects)
    some = metrics.rows_of(result, result.metrics, result.summary.effects, most=10)
    assert len(some) < len(whole) and {metric for metric, _ in some} == {metric for metric, _ in whole}
    assert [metric for metric, _ in some].count("qps") == len(result.steps)
    assert [metric for metric, _ in some].count("disk_write_bytes_per_s") == 1
