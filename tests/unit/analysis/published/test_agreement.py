"""A published ratio beside our verdict: agrees, partly, disagrees or undecided."""

import pytest

from mydyno.analysis.published.figures import AGREEMENT, Agreement, all_of, compare
from mydyno.errors import BugError
from mydyno.model.stored.reasons import fact
from mydyno.model.stored.summary import EffectDetails, EffectRecord


def effect(verdict: str | None, low: float | None, high: float | None, *facts: str) -> EffectRecord:
    """An effect with this verdict and interval, and what the verdict rests on."""
    return EffectRecord(
        metric="qps", step="s", arm="b", control="a", n=8, ratio=low, ci_low=low, ci_high=high, p=0.01,
        verdict=verdict,  # type: ignore[arg-type]
        details=EffectDetails(facts=tuple(fact(one) for one in facts)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("published", "verdict", "low", "high", "answer"),
    [
        (1.25, "higher", 1.20, 1.30, Agreement.AGREES),
        (1.25, "higher", 1.02, 1.10, Agreement.PARTLY),
        (1.068, "higher", 1.077, 1.087, Agreement.AGREES),
        (1.04, "higher", 1.077, 1.087, Agreement.PARTLY),
        (0.5, "lower", 0.80, 0.90, Agreement.PARTLY),
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
    assert AGREEMENT[compare(published, effect(verdict, low, high)).because] == answer


@pytest.mark.parametrize(("low", "high"), [(1.20, 1.30), (0.5, 0.6), (0.999, 1.001), (None, None)])
def test_what_is_not_measurable_agrees_and_disagrees_with_nothing(low: float | None, high: float | None) -> None:
    for published in (1.25, 1.0):
        assert AGREEMENT[compare(published, effect("not_measurable", low, high)).because] == Agreement.CANNOT_TELL


@pytest.mark.parametrize(
    ("published", "low", "high", "answer"),
    [
        (0.72, 0.614, 0.623, Agreement.PARTLY),
        (0.62, 0.614, 0.623, Agreement.AGREES),
        (1.25, 0.5, 0.6, Agreement.DISAGREES),
        (1.25, 0.97, 1.30, Agreement.CANNOT_TELL),
        (1.25, 0.99, 1.01, Agreement.CANNOT_TELL),
        (1.0, 0.999, 1.001, Agreement.CANNOT_TELL),
        (1.25, None, None, Agreement.CANNOT_TELL),
    ],
)
def test_an_exploratory_effect_has_the_direction_that_its_interval_shows(
    published: float, low: float | None, high: float | None, answer: Agreement
) -> None:
    found = compare(published, effect(None, low, high))
    assert (AGREEMENT[found.because], found.verdict) == (answer, "exploratory")


@pytest.mark.parametrize(
    ("answers", "one"),
    [
        ("agrees agrees", "agrees"),
        ("agrees disagrees", "partly"),
        ("agrees partly", "partly"),
        ("partly disagrees", "partly"),
        ("agrees cannot", "cannot tell"),
        ("disagrees cannot", "disagrees"),
        ("", "cannot tell"),
    ],
)
def test_several_answers_make_one(answers: str, one: str) -> None:
    assert all_of([Agreement(word.replace("cannot", "cannot tell")) for word in answers.split()]) == one


@pytest.mark.parametrize(
    ("published", "low", "high", "facts", "answer"),
    [
        (1.15, 0.97, 1.017, (), Agreement.DISAGREES),
        (1.15, 0.97, 1.017, ("seems_different",), Agreement.DISAGREES),
        (0.85, 0.985, 1.03, ("permutation_alone",), Agreement.DISAGREES),
        (0.85, 0.97, 1.017, (), Agreement.CANNOT_TELL),
        (1.15, 0.97, 1.10, (), Agreement.CANNOT_TELL),
        (1.15, 0.97, 1.16, (), Agreement.CANNOT_TELL),
        (1.00, 0.97, 1.017, (), Agreement.CANNOT_TELL),
        (1.15, None, None, (), Agreement.CANNOT_TELL),
        *(
            (1.15, 0.97, 1.017, (doubt, "seems_different"), Agreement.CANNOT_TELL)
            for doubt in ("before_look", "between_looks", "few_blocks", "interval_alone", "copies_differ", "text")
        ),
    ],
)
def test_an_inconclusive_interval_can_only_disagree_and_only_where_it_is_valid(
    published: float, low: float | None, high: float | None, facts: tuple[str, ...], answer: Agreement
) -> None:
    found = compare(published, effect("inconclusive", low, high, *facts))
    assert AGREEMENT[found.because] == answer
    assert found.because == ("outside" if answer == Agreement.DISAGREES else "undecided")


def test_the_rounding_of_the_publication_is_given_the_benefit_of_the_doubt() -> None:
    assert AGREEMENT[compare(1.25, effect("higher", 1.283, 1.30)).because] == Agreement.PARTLY
    assert AGREEMENT[compare(1.25, effect("higher", 1.283, 1.30), rounding=0.04).because] == Agreement.AGREES


def test_an_effect_the_other_way_is_called_one() -> None:
    assert compare(1.25, effect("lower", 0.80, 0.90)).because == "opposite"
    assert compare(1.25, effect("higher", 1.02, 1.10)).because == "another size"
    assert compare(1.00, effect("higher", 1.02, 1.10)).because == "outside", "published: no change"


@pytest.mark.parametrize("published", [0.0, -1.0, float("nan")])
def test_a_published_ratio_that_is_none_is_a_bug_of_the_caller(published: float) -> None:
    with pytest.raises(BugError, match="must be above 0"):
        compare(published, effect("higher", 0.9, 1.1))
