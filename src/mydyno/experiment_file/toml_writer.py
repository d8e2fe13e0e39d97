"""An experiment's tree as TOML text, in the form that its author would write: short tables on one line, others with a
header of their own.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

LINE_LENGTH = 120
"""Longest line of a table that is written on one line."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")
MOST_MEMBERS = 2
"""Most keys of a table on one line, except for arms and factors."""
ORDERED = ("arms", "factors")


def toml_text(tree: Mapping[str, Any]) -> str:
    """The text; tomllib.loads() gives the tree again. Raises TypeError for a value that TOML does not have."""
    lines: list[str] = []
    _table(lines, (), tree)
    return "\n".join(lines).strip("\n") + "\n"


def toml_value(value: Any) -> str:
    """One value as it stands to the right of `=`, tables on one line. Raises TypeError for one that TOML lacks."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(one) for one in value)}]"
    if isinstance(value, Mapping):
        members = ", ".join(f"{toml_key(key)} = {toml_value(one)}" for key, one in value.items())
        return f"{{ {members} }}" if members else "{}"
    raise TypeError(f"TOML has no value of type {type(value).__name__}")


def toml_key(key: str) -> str:
    """A key, in quotes where it needs them."""
    return key if _BARE.fullmatch(key) else _string(key)


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)


def _string(value: str) -> str:
    # A basic string has the escapes of JSON, and may not contain DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _table(lines: list[str], path: tuple[str, ...], table: Mapping[str, Any]) -> None:
    """The members of a table: first those that stand on one line, then those with a header."""
    written = {key: f"{toml_key(key)} = {toml_value(value)}" for key, value in table.items()}
    later = {key for key in table if _needs_header(path, table[key], written[key])}
    if path == ("arms",) and later:  # the order of arms is that of the report
        later = {key for key in table if isinstance(table[key], Mapping)}
    lines += [line for key, line in written.items() if key not in later]
    for key in (key for key in table if key in later):
        value = table[key]
        name = ".".join(toml_key(part) for part in (*path, key))
        for one in value if isinstance(value, list) else [value]:
            inside: list[str] = []
            _table(inside, (*path, key), one)
            header = f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
            alone = inside and inside[0] == "" and not isinstance(value, list)  # its tables name it too
            lines += inside if alone else ["", header, *inside]


def _needs_header(path: tuple[str, ...], value: Any, line: str) -> bool:
    if isinstance(value, list):
        return _is_tables(value) and (not path or len(line) > LINE_LENGTH)
    if not isinstance(value, Mapping) or not value:
        return False
    return not path or len(line) > LINE_LENGTH or (len(value) > MOST_MEMBERS and path[0] not in ORDERED)


def _is_tables(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(one, Mapping) for one in value)
