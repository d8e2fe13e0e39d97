"""Messages in the language of the context, and the words that lists are made of."""

from __future__ import annotations

import pytest

from mydyno.language import current_language, html_language, joined, listing, percent_sign, speaking, tr, tr_plural


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
