"""A published ratio beside our verdict: agrees, disagrees or undecided."""

import pytest

from mydyno.errors import BugError
from mydyno.results.published.agreement import AGREEMENT, Agreement, compare


@pytest.mark.parametrize(
    ("published", "verdict", "low", "high", "answer"),
    [
        (1.25, "higher", 1.20, 1.30, Agreement.AGREES),
        (1.25, "higher", 1.02, 1.10, Agreement.DISAGREES),
        (1.25, "lower", 0.80, 0.90, Agreement.DISAGREES),
        (0.88, "lower", 0.80, 0.90, Agreement.AGREES),
        (1.00, "equivalent", 0.99, 1.01, Agreement.AGREES),
        (1.03, "equivalent", 0.985, 1.015, Agreement.DISAGREES),
        (1.03, "equivalent", 0.97, 1.04, Agreement.CANNOT_TELL),
        (1.00, "higher", 1.05, 1.10, Agreement.DISAGREES),
    ],
)
def test_a_published_ratio_is_compared_with_the_verdict(
    published: float, verdict: str, low: float, high: float, answer: Agreement
) -> None:
    assert AGREEMENT[compare(published, verdict, low, high).because] == answer


@pytest.mark.parametrize("verdict", ["inconclusive", "not_measurable", None])
@pytest.mark.parametrize(("low", "high"), [(1.20, 1.30), (0.5, 0.6), (0.999, 1.001), (None, None)])
def test_without_a_decided_verdict_no_interval_agrees_or_disagrees(
    verdict: str | None, low: float | None, high: float | None
) -> None:
    for published in (1.25, 1.0):
        assert AGREEMENT[compare(published, verdict, low, high).because] == Agreement.CANNOT_TELL


def test_the_rounding_of_the_publication_is_given_the_benefit_of_the_doubt() -> None:
    assert AGREEMENT[compare(1.25, "higher", 1.253, 1.30).because] == Agreement.DISAGREES
    assert AGREEMENT[compare(1.25, "higher", 1.253, 1.30, rounding=0.005).because] == Agreement.AGREES


def test_an_effect_the_other_way_is_called_one() -> None:
    assert compare(1.25, "lower", 0.80, 0.90).because == "opposite"
    assert compare(1.25, "higher", 1.02, 1.10).because == "outside"


@pytest.mark.parametrize("published", [0.0, -1.0, float("nan")])
def test_a_published_ratio_that_is_none_is_a_bug_of_the_caller(published: float) -> None:
    with pytest.raises(BugError, match="must be above 0"):
        compare(published, "higher", 0.9, 1.1)
