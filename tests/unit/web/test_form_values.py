"""An experiment's tree on its way to the form and back."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from mydyno.experiments import built_in
from mydyno.web.form_values import decoded, encoded, typed


@pytest.mark.parametrize("name", built_in())
def test_a_tree_that_is_not_edited_comes_back(name: str) -> None:
    tree = tomllib.loads(built_in()[name].read_text())
    assert decoded(json.loads(json.dumps(encoded(tree)))) == tree


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("2s", "2s"), ("[1, 16]", [1, 16]), ("true", True), ("256M", "256M"), ('"1.2"', "1.2"), ("", ""),
     ("18446744073709551615", 2**64 - 1), ("1\nother = 2", "1\nother = 2"), ("[" * 9999, "[" * 9999)],
)  # fmt: skip
def test_what_is_typed_is_toml_or_a_bare_word(text: str, value: object) -> None:
    assert typed(text) == value


def test_an_edited_text_stays_a_text() -> None:
    assert decoded({"a": {"s": "1.2"}, "b": {"v": "1.2"}, "c": {"t": "1", "d": "2"}}) == {"a": "1.2", "b": 1.2, "c": 1}


@pytest.mark.parametrize("sent", [{"a": 1}, {"a": None}, {"a": ["b"]}, {"a": {"b": "c"}}])
def test_anything_else_is_refused(sent: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="objects"):
        decoded(sent)
