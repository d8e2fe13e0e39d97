"""Messages in the language of the context, and the words that lists are made of."""

from __future__ import annotations

import pytest

from mydyno.language import (
    agreed,
    current_language,
    html_language,
    joined,
    listing,
    percent_sign,
    speaking,
    tr,
    tr_plural,
)


def test_messages_are_english_outside_of_a_context() -> None:
    with speaking("zh"):
        assert (tr("higher"), html_language()) == ("更高", "zh-CN")
        with speaking("en"):
            assert (tr("higher"), html_language()) == ("higher", "en")
    assert current_language() == "en"


def test_the_language_is_restored_after_an_error() -> None:
    with pytest.raises(ValueError, match="stop"), speaking("zh"):
        raise ValueError("stop")
    assert current_language() == "en"


def test_an_unknown_message_stays_english() -> None:
    with speaking("zh"):
        assert tr("a message without a translation: {n}", n=3) == "a message without a translation: 3"


def test_numbers_choose_the_form() -> None:
    assert [tr_plural("{count} block", "{count} blocks", n) for n in (1, 2)] == ["1 block", "2 blocks"]
    with speaking("zh"):
        assert [tr_plural("{count} block", "{count} blocks", n) for n in (1, 2)] == ["1 个区组", "2 个区组"]


def test_lists_follow_the_language() -> None:
    assert (listing(("a",)), listing(("a", "b", "c")), joined(("x", "y"))) == ("a", "a, b and c", "x; y")
    with speaking("zh"):
        assert (listing(("a", "b", "c")), joined(("x", "y")), percent_sign(" ")) == ("a、b 和 c", "x；y", "%")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("1 blocks cannot show a difference", "1 block cannot show a difference"),
        ("1 of 3 runs are invalid", "1 of 3 runs is invalid"),
        ("1 of their 4 steps are not valid", "1 of their 4 steps is not valid"),
        ("1 more effects are smaller", "1 more effect is smaller"),
        ("in 1 slices of their own", "in 1 slice of their own"),
        ("1 errors and 0 lost connections", "1 error and 0 lost connections"),
        ("undoing 1 entries; 1 studies", "undoing 1 entry; 1 study"),
        ("11 blocks, 0.1 blocks, 2.1 blocks, −1 blocks", "11 blocks, 0.1 blocks, 2.1 blocks, −1 blocks"),
        ("2 of 3 runs are invalid", "2 of 3 runs are invalid"),
        ("innodb_threads=1 runs; 1 ms; 1 transactions/s", "innodb_threads=1 runs; 1 ms; 1 transactions/s"),
        ("study 1 has runs", "study 1 has runs"),
    ],
)
def test_what_is_counted_once_is_singular(text: str, right: str) -> None:
    assert agreed(text) == right
    assert tr("{text}", text=text) == right
    with speaking("zh"):
        assert tr("{text}", text="1 runs") == "1 runs", "Chinese has one form"
