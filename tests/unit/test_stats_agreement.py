"""A published ratio beside our interval: agrees, disagrees, or cannot tell."""

import pytest

from mydyno.errors import BugError
from mydyno.stats.agreement import Agreement, compare


@pytest.mark.parametrize(
    ("published", "low", "high", "answer"),
    [
        (1.25, 1.20, 1.30, Agreement.AGREES),
        (1.25, 1.02, 1.10, Agreement.DISAGREES),
        (1.25, 0.80, 0.90, Agreement.DISAGREES),
        (1.25, 0.90, 1.40, Agreement.CANNOT_TELL),
        (0.88, 0.80, 0.90, Agreement.AGREES),
        (1.00, 0.99, 1.01, Agreement.AGREES),
        (1.00, 0.90, 1.10, Agreement.CANNOT_TELL),
        (1.00, 1.05, 1.10, Agreement.DISAGREES),
    ],
)
def test_a_published_ratio_is_compared_with_the_interval(
    published: float, low: float, high: float, answer: Agreement
) -> None:
    assert compare(published, low, high).agreement == answer


def test_without_an_interval_nothing_can_be_told() -> None:
    assert compare(1.25, None, None).agreement == Agreement.CANNOT_TELL


def test_the_rounding_of_the_publication_is_given_the_benefit_of_the_doubt() -> None:
    assert compare(1.25, 1.253, 1.30).agreement == Agreement.DISAGREES
    assert compare(1.25, 1.253, 1.30, rounding=0.005).agreement == Agreement.AGREES


def test_an_effect_the_other_way_is_said_to_be_one() -> None:
    assert (
        compare(1.25, 0.80, 0.90).because
        == "the published +25.0 % points the other way: measured here [−20.0 %, −10.0 %]"
    )
    assert "lies outside" in compare(1.25, 1.02, 1.10).because


@pytest.mark.parametrize("published", [0.0, -1.0, float("nan")])
def test_a_published_ratio_that_is_none_is_a_bug_of_the_caller(published: float) -> None:
    with pytest.raises(BugError, match="must be above 0"):
        compare(published, 0.9, 1.1)


def test_an_absurdly_wide_interval_is_said_in_few_digits() -> None:
    assert compare(0.9, 1e-9, 7.5e27).because == (
        "the interval [−100.0 %, more than +900 %] holds the published −10.0 % and no change alike"
    )
