# mypy: disable-error-code="arg-type"
"""Changes of level over sessions: false alarms, what is found, and what so few sessions cannot show. Seeded."""

from __future__ import annotations

import numpy as np
import pytest
import ruptures

from mydyno.stats.level_changes import level_changes, moderated
from tests.support.simulated import at_most, simulated


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sessions", "between", "unequal"), [(5, 0.0, 0.0), (8, 0.03, 0.5), (15, 0.0, 0.5), (15, 0.01, 0.0)]
)
def test_series_without_a_change_show_one_in_at_most_5_percent(sessions: int, between: float, unequal: float) -> None:
    """Sessions of 1 % error, or unequal ones, that scatter beyond it or do not; errors are estimates."""
    random, count, wrong = np.random.default_rng(51), simulated(150), 0
    for _ in range(count):
        errors = 0.01 * np.exp(random.normal(0.0, unequal, sessions))
        stated = errors * np.sqrt(random.chisquare(10, sessions) / 10)
        x = random.normal(0.0, np.sqrt(errors**2 + between**2))
        wrong += bool(level_changes(x, stated, [10] * sessions).changes)
    assert at_most(wrong / count, count)


@pytest.mark.parametrize(("at", "found"), [(8, 0.9), (13, 0.6)])
def test_a_change_of_five_errors_is_found_where_it_is(at: int, found: float) -> None:
    random, hits, sizes = np.random.default_rng(52), 0, []
    for _ in range(60):
        x = random.normal(0.0, 0.01, 15)
        x[at:] += 0.05
        changes = level_changes(x, [0.01] * 15, [10] * 15).changes
        near = [change for change in changes if abs(change.at - at) <= 1]
        hits += bool(near)
        sizes += [change.size for change in near]
        assert all(change.low < change.size < change.high for change in changes)
    assert hits / 60 >= found
    assert np.mean(sizes) == pytest.approx(0.05, abs=0.006)


def test_a_rise_that_is_taken_back_is_two_changes_as_in_ruptures() -> None:
    x = np.random.default_rng(53).normal(0.0, 0.01, 18)
    x[6:12] += 0.08
    found = level_changes(x, [0.01] * 18, [8] * 18)
    ends = ruptures.Pelt(model="l2", min_size=1, jump=1).fit(x).predict(pen=4 * 0.01**2 * np.log(18))
    assert [change.at for change in found.changes] == ends[:-1] == [6, 12]
    assert [change.size > 0 for change in found.changes] == [True, False]
    assert [segment.level for segment in found.segments] == pytest.approx([0.0, 0.08, 0.0], abs=0.01)


def test_an_uncertain_session_moves_no_level() -> None:
    """One study with ten times the error lies far off; it is neither a change nor much of the level."""
    x = np.array([0.0, 0.001, -0.001, 0.0, 0.2, 0.001, 0.0, -0.001])
    errors = np.array([0.01] * 4 + [0.15] + [0.01] * 3)
    found = level_changes(x, errors, [40] * 8)
    assert found.changes == ()
    assert abs(found.segments[0].level) < 0.02


def test_three_sessions_cannot_show_a_change() -> None:
    found = level_changes([0.0, 0.0, 0.5], [0.01] * 3, [10] * 3)
    assert (found.changes, found.p, found.detectable) == ((), None, None)
    assert level_changes([], [], []).segments == ()


def test_scatter_between_sessions_is_estimated_and_needs_larger_changes() -> None:
    random = np.random.default_rng(54)
    quiet = [level_changes(random.normal(0, 0.01, 20), [0.01] * 20, [30] * 20) for _ in range(20)]
    restless = [level_changes(random.normal(0, 0.05, 20), [0.01] * 20, [30] * 20) for _ in range(20)]
    assert np.median([one.session_sd for one in quiet]) < 0.008
    assert np.median([one.session_sd for one in restless]) == pytest.approx(0.049, abs=0.015)
    assert np.median([one.detectable or 0 for one in restless]) > 3 * np.median([one.detectable or 0 for one in quiet])


def test_errors_that_scatter_as_estimates_of_one_error_become_one() -> None:
    random = np.random.default_rng(55)
    alike = 0.01 * np.sqrt(random.chisquare(5, 30) / 5)
    shrunk, freedom = moderated(alike, np.full(30, 5))
    assert np.std(np.log(shrunk)) < 0.3 * np.std(np.log(alike))
    assert (freedom > 20).all()
    unlike = np.repeat([0.001, 0.1], 15)
    kept, _ = moderated(unlike, np.full(30, 20))
    assert kept[:15].max() < 0.002
    assert kept[15:].min() > 0.08
