"""The chart of what moved: what is in it, in which order, and how much of it."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from mydyno.model.stored.summary import EffectRecord
from mydyno.reports.charts.scale import Ratios, ratio_ticks
from mydyno.reports.page import render_page
from mydyno.reports.sections.moved import MOST_ROWS, size_over_noise, strongest
from tests.support.fake_study_folder import Shape, build


def effect(
    arm: str, ratio: float | None, low: float | None = None, high: float | None = None, **more: object
) -> EffectRecord:
    fields = {"metric": "qps", "step": "s", "control": "A", "n": 6, "p": None, "verdict": None}
    return EffectRecord(**{**fields, "arm": arm, "ratio": ratio, "ci_low": low, "ci_high": high, **more})


def test_effects_are_sorted_by_their_size_over_the_half_of_their_interval() -> None:
    wide = effect("wide", 2.0, 0.5, 8.0)
    narrow = effect("narrow", 1.02, 1.01, 1.0301)
    assert size_over_noise(wide) == pytest.approx(0.5)
    assert [one.arm for one in strongest([wide, narrow])] == ["narrow", "wide"]


def test_a_loss_is_as_strong_as_the_gain_that_makes_up_for_it() -> None:
    assert size_over_noise(effect("a", 0.5, 0.4, 0.625)) == pytest.approx(size_over_noise(effect("b", 2.0, 1.6, 2.5)))


def test_what_is_the_same_in_every_block_comes_first_unless_nothing_moved() -> None:
    exact, still = effect("exact", 1.1, 1.1, 1.1), effect("still", 1.0, 1.0, 1.0)
    assert size_over_noise(exact) == inf and size_over_noise(still) == 0.0
    assert [one.arm for one in strongest([still, effect("x", 1.5, 1.4, 1.6), exact])] == ["exact", "x", "still"]


def test_effects_with_a_verdict_or_without_an_interval_are_left_out() -> None:
    assert (
        strongest([effect("judged", 2.0, 1.9, 2.1, verdict="higher"), effect("one block", 2.0), effect("none", None)])
        == []
    )


@pytest.mark.slow
def test_the_report_shows_the_strongest_and_counts_the_others(tmp_path: Path) -> None:
    page = render_page(build(tmp_path / "study", Shape()))
    start = page.index('data-chart="moved"')
    chart = page[start : page.index("</svg>", start)]
    assert 0 < chart.count('class="interval"') <= MOST_ROWS
    assert "more effects are smaller against their noise" in page
    assert page.index("What moved") < page.index('<details class="group"><summary>TPS')


@pytest.mark.parametrize(("low", "high"), [(-0.001, 0.002), (-0.2, 0.1), (0.02, 0.5), (-0.95, 12.0), (0.0, 0.0)])
def test_ticks_of_ratios_enclose_the_values_and_no_effect(low: float, high: float) -> None:
    ticks = ratio_ticks(low, high, 7)
    assert ticks[0] <= min(low, 0.0) + 1e-9 and ticks[-1] >= max(high, 0.0) - 1e-9
    assert 2 <= len(ticks) <= 8 and any(abs(tick) < 1e-12 for tick in ticks)


def test_on_the_axis_of_ratios_half_is_as_far_as_twice() -> None:
    scale = Ratios(-0.75, 3.0, 0.0, 100.0)
    assert scale(0.0) - scale(-0.5) == pytest.approx(scale(1.0) - scale(0.0))
    assert scale.clamp(-1.0) == 0.0
