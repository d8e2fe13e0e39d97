"""An experiment file's text: parsed, with the line of each key for messages; and a value as TOML.

`base = "variable"`: a file that says only what is otherwise than in a built-in experiment.
"""

from __future__ import annotations

import codecs
import copy
import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any

from mydyno.errors import UserError
from mydyno.experiment_file.overrides import ARM_SECTIONS, merged
from mydyno.model.definition.problems import Key

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_ASSIGNMENT = re.compile(r'^\s*([A-Za-z0-9_.\-"\' ]+?)\s*=')


BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"), (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"), (codecs.BOM_UTF16_BE, "UTF-16"),
)  # fmt: skip
"""The longer ones first: that of UTF-32 begins with that of UTF-16."""
MOST_LEVELS = 50
"""Most levels of tables inside tables; an experiment has 5."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(name: str, content: bytes) -> str:
    """The text of a TOML file, which is in UTF-8, with or without a byte order mark.

    Raises UserError with the line of the first byte that is not, and the encoding that the file seems to have.
    """
    encoding = next((encoding for mark, encoding in BYTE_ORDER_MARKS if content.startswith(mark)), "")
    if encoding or b"\0" in content:  # TOML has no NUL
        raise UserError(f"{name}:1: the file is in {encoding or 'UTF-16'}, not in UTF-8", "save it as UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
        raise UserError(
            f"{name}:{line}: byte 0x{byte:02x} is not UTF-8; the file seems to be in Latin-1 or Windows-1252",
            f"save it as UTF-8: iconv -f WINDOWS-1252 -t UTF-8 {name}",
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True)
class TomlSource:
    """A TOML document with the place of its keys."""

    name: str
    text: str
    tree: dict[str, Any]
    lines: dict[Key, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, name: str, text: str) -> TomlSource:
        """Raises UserError with file and line where it is no TOML."""
        try:
            tree = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UserError(f"{name}: not valid TOML: {error}") from None
        except RecursionError:
            raise UserError(f"{name}: not valid TOML: nested too deeply") from None
        if _is_deeper(tree, MOST_LEVELS):  # dotted keys nest without recursion in the parser
            raise UserError(f"{name}: tables are nested too deeply")
        return cls(name, text, tree, _key_lines(text))

    def place(self, key: Key, scale: str = "") -> str:
        """file:line of the key, or of the nearest part around it that stands on a line of its own.

        What the scale overrides is found there: its line is the one to correct.
        """
        for length in range(len(key), 0, -1):
            for found in (("scale", scale, *key[:length]), key[:length]):
                if found in self.lines:
                    return f"{self.name}:{self.lines[found]}"
        return self.name


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(one, levels - 1) for one in inside)


def _key_lines(text: str) -> dict[Key, int]:
    lines: dict[Key, int] = {}
    section: Key = ()
    counts: dict[Key, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header:
            section = _split(header[2])
            if header[1] == "[[":
                index = counts.get(section, -1) + 1
                counts[section] = index
                section = (*section, index)
            lines.setdefault(section, number)
        elif assignment := _ASSIGNMENT.match(line):
            lines.setdefault((*section, *_split(assignment[1])), number)
    return lines


def _split(dotted: str) -> Key:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def based_on(under: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The built-in experiment's tree with the file's own laid over it; lists are replaced, tables are merged.

    Where the file has arms, the base's are gone, and with them, in its scales too, what names them.
    """
    tree = copy.deepcopy(dict(under))
    if any(section in own for section in ARM_SECTIONS):
        for table in (tree, *tree.get("scale", {}).values()):
            _without_arms(table)
    return merged(tree, {key: value for key, value in own.items() if key != "base"})


def _without_arms(table: dict[str, Any]) -> None:
    for section in ARM_SECTIONS:
        table.pop(section, None)
    if isinstance(table.get("verdict"), dict):
        table["verdict"].pop("compare", None)


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
