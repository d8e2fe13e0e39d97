"""Values as TOML."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mydyno.experiment_file.toml_source import toml_value

TEXTS = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXTS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXTS, inside, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_every_value_is_the_same_after_writing(value: Any) -> None:
    assert tomllib.loads(f"value = {toml_value(value)}")["value"] == value


def test_what_toml_lacks_is_an_error() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        toml_value([None])
