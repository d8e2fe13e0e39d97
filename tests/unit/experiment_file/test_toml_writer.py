"""Trees of experiments as TOML text."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mydyno.experiment_file.toml_writer import toml_text, toml_value
from mydyno.experiments import built_in

TEXTS = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXTS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXTS, inside, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize("name", built_in())
def test_a_built_in_experiment_is_the_same_after_writing(name: str) -> None:
    text = built_in()[name].read_text()
    written = toml_text(tomllib.loads(text))
    assert tomllib.loads(written) == tomllib.loads(text)
    order = list(tomllib.loads(text).get("arms", {}))
    assert list(tomllib.loads(written).get("arms", {})) == order, "the order of arms is that of the report"


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_every_tree_is_the_same_after_writing(tree: dict[str, Any]) -> None:
    assert tomllib.loads(toml_text(tree)) == tree


def test_short_tables_stand_on_one_line_and_others_have_a_header() -> None:
    tree = {
        "name": "a",
        "server": {"name": "mariadb-10.11", "variables": {"x": 1, "y": 2, "z": 3}},
        "arms": {"control": "p", "p": {"variables": {"a b": "q\n\x7f"}}, "q": {}},
        "steps": [{"workload": "connect", "connections": [1, 16]}],
        "scale": {"quick": {"design": {"time": "10m"}}},
    }
    assert toml_text(tree) == (
        'name = "a"\n\n[server]\nname = "mariadb-10.11"\n\n[server.variables]\nx = 1\ny = 2\nz = 3\n\n'
        '[arms]\ncontrol = "p"\np = { variables = { "a b" = "q\\n\\u007f" } }\nq = {}\n\n'
        '[[steps]]\nworkload = "connect"\nconnections = [1, 16]\n\n[scale]\nquick = { design = { time = "10m" } }\n'
    )


def test_what_toml_lacks_is_an_error() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        toml_value([None])
