"""Looks: their rates sum to 5 % for every aim, and stay the same until the look aimed for."""

import pytest

from mydyno.model.definition.looks import EARLY, LOOK_BLOCKS, SIX, looks_aimed_at


@pytest.mark.parametrize("aim", LOOK_BLOCKS)
def test_looks_spend_five_percent_whatever_is_aimed_for(aim: int) -> None:
    looks = looks_aimed_at(aim)
    assert sum(looks.rates.values()) == pytest.approx(0.05)
    assert looks.aim == aim
    assert looks.alpha_at(aim) == pytest.approx(0.032, abs=0.002)


@pytest.mark.parametrize("aim", LOOK_BLOCKS)
def test_looks_before_the_aim_have_the_rates_of_every_other_later_aim(aim: int) -> None:
    """So a study may aim for another look until the one aimed for was examined."""
    before = {look: rate for look, rate in looks_aimed_at(aim).rates.items() if look < aim}
    for other in (look for look in LOOK_BLOCKS if look > aim):
        assert before.items() <= looks_aimed_at(other).rates.items()


def test_the_early_look_is_there_only_where_it_is_aimed_for() -> None:
    early = looks_aimed_at(EARLY)
    assert (early.aim, early.first, early.alpha_at(EARLY)) == (EARLY, EARLY, 0.02725)
    assert sum(early.rates.values()) == pytest.approx(0.05)
    assert not any(EARLY in looks_aimed_at(aim).rates for aim in LOOK_BLOCKS)


def test_looks_are_at_fixed_numbers_of_blocks() -> None:
    assert [SIX.alpha_at(n) for n in (5, 6, 7, 40, 41)] == [None, 0.03125, None, 0.00575, None]
    assert [SIX.next_after(n) for n in (0, 5, 6, 39, 40)] == [6, 6, 10, 40, None]
    assert [SIX.latest(n) for n in (0, 5, 6, 9, 99)] == [None, None, 6, 6, 40]
    assert (SIX.first, SIX.last) == (6, 40)


def test_fewer_blocks_than_the_first_look_aim_for_it_and_more_than_the_last_for_that() -> None:
    assert [looks_aimed_at(n).aim for n in (1, 6, 7, 12, 40, 100)] == [6, 6, 10, 16, 40, 40]


@pytest.mark.parametrize("aim", (EARLY, *LOOK_BLOCKS))
@pytest.mark.parametrize("total", [0.0001, 0.01, 0.2])
def test_the_rates_of_looks_sum_to_the_error_rate_that_is_set(aim: int, total: float) -> None:
    looks = looks_aimed_at(aim, total)
    assert looks.total == pytest.approx(total)
    assert looks.aim == aim
    assert list(looks.rates) == list(looks_aimed_at(aim).rates)
