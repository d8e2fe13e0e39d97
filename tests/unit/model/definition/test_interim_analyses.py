"""Interim analyses of a sequential study: which there are, and what they spend together."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import stdtr

from mydyno.model.definition.plan import EARLY, INTERIM_BLOCKS, SIX, interim_aimed_at

AIMS = (4, 5, 6, 8, 13, 26, 39, 40)


@pytest.mark.parametrize("total", [0.05, 0.01, 0.2])
def test_the_looks_together_err_as_often_as_is_set_at_most(total: float) -> None:
    """t tests of independent blocks without an effect, each with its own estimate of the noise: looks share blocks."""
    blocks = np.random.default_rng(1).standard_normal((100_000, 40))
    mean, n = np.cumsum(blocks, axis=1), np.arange(1, 41)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (np.cumsum(blocks**2, axis=1) - mean**2 / n) / (n - 1)
        t = np.abs(mean / n) / np.sqrt(variance / n)
    p_at = {look: 2 * stdtr(look - 1, -t[:, look - 1]) for look in {*AIMS, *INTERIM_BLOCKS}}
    for aim in AIMS:
        rates = interim_aimed_at(aim, total).rates
        wrong = np.any([p_at[look] <= rate for look, rate in rates.items()], axis=0).mean()
        assert 0.8 * total < wrong <= total + 2 * np.sqrt(total / len(blocks)), (aim, wrong)


@pytest.mark.parametrize("aim", [6, 9, 10, 25, 40])
def test_looks_before_the_aim_have_the_same_rates_for_every_later_aim(aim: int) -> None:
    """So another look can be aimed for as long as this one was not made."""
    before = {look: rate for look, rate in interim_aimed_at(aim).rates.items() if look < aim}
    for other in range(aim + 1, 41):
        assert before.items() <= interim_aimed_at(other).rates.items()


def test_the_look_aimed_for_has_most_of_the_error_rate_and_falls_on_any_block() -> None:
    for aim in AIMS:
        looks = interim_aimed_at(aim)
        assert (looks.aim, looks.alpha_at(aim)) == (aim, 0.036)
        assert set(looks.rates) == {aim, *INTERIM_BLOCKS}
    assert interim_aimed_at(EARLY).first == EARLY
    assert [interim_aimed_at(n).aim for n in (1, 6, 7, 12, 40, 100)] == [4, 6, 7, 12, 40, 40]


def test_looks_are_at_fixed_numbers_of_blocks_beside_it() -> None:
    assert [SIX.alpha_at(n) for n in (5, 6, 7, 40, 41)] == [None, 0.036, None, 0.00575, None]
    assert [SIX.next_after(n) for n in (0, 5, 6, 39, 40)] == [6, 6, 10, 40, None]
    assert [SIX.latest(n) for n in (0, 5, 6, 9, 99)] == [None, None, 6, 6, 40]
    assert (SIX.first, SIX.last) == (6, 40)
