"""How the form of /design and the server exchange an experiment's tree as JSON.

A table is an object and a list of tables an array. Any other value is a leaf, an object with one or more texts:

- from the server: `t`, the value as TOML; `s` too, the text itself, if it is a text; `d`, what an author would type;
- from the form: `t` of a value that was not edited; `s` of a text; `v`, what was typed: TOML, or else a bare word, as
  with `--set KEY=VALUE`.

So numbers keep every digit, which JavaScript's would not.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from mydyno.experiment_file.toml_writer import toml_value


def encoded(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A tree for the form."""
    return {key: _encoded(value) for key, value in tree.items()}


def _encoded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return encoded(value)
    if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        return [encoded(one) for one in value]
    literal = toml_value(value)
    if isinstance(value, str):
        return {"t": literal, "s": value, "d": value if typed(value) == value else literal}
    return {"t": literal, "d": literal}


def decoded(sent: Mapping[str, Any]) -> dict[str, Any]:
    """The tree of a form. Raises ValueError for what is no such JSON."""
    return {key: _decoded(value) for key, value in sent.items()}


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(one) for one in value]
    if not isinstance(value, dict):
        raise ValueError("a form sends objects and arrays of them")
    if isinstance(literal := value.get("t"), str):
        return typed(literal)
    if isinstance(text := value.get("s"), str):
        return text
    if isinstance(word := value.get("v"), str):
        return typed(word)
    return decoded(value)


def typed(text: str) -> Any:
    """What an author who typed this means: a TOML value, or a bare word."""
    word = text.strip()
    try:
        tree = tomllib.loads(f"value = {word}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return word
    return tree["value"] if len(tree) == 1 else word
