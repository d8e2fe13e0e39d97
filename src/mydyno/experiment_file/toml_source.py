"""An experiment file's text: parsed, with the line of each key for messages; and a value as TOML.

`base = "variable"`: a file that says only what is otherwise than in a built-in experiment. --scale and --set change an
experiment's tree before it is validated.
"""

from __future__ import annotations

import codecs
import copy
import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any

from mydyno.errors import UserError
from mydyno.model.definition.experiment import FILE_KINDS
from mydyno.model.definition.problems import Key

SERVER_WAYS = frozenset({"name", "basedir", "build", "dsn"})
"""The keys of [server] that say where it comes from; an override that sets one of them replaces all of them, but the
settings of a build are merged."""
SERVER_OF_ARM = frozenset({"server", "dsn"})
"""The keys of an arm that say which server it has."""
ARM_SECTIONS = ("arms", "factors", "vary", "screen")
"""The sections that make arms; an experiment has one of them."""
OF_EVERY_ARM = "treatments"
"""The section of what every arm has, whichever section makes the arms."""


def merged(tree: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """A new tree: tables are merged, everything else is replaced; a table over a list goes to each of its members.

    The last rule makes `steps.measure = "5s"` say it for all steps at once.
    """
    server = override.get("server")
    ways = SERVER_WAYS & set(server) if isinstance(server, Mapping) else set()
    result = _without_server(tree, ways) if ways else dict(tree)
    result = copy.deepcopy(result)
    for key, value in override.items():
        present = result.get(key)
        if isinstance(value, Mapping) and isinstance(present, dict):
            result[key] = merged(present, value)
        elif isinstance(value, Mapping) and isinstance(present, list) and all(isinstance(one, dict) for one in present):
            result[key] = [merged(one, value) for one in present]
        else:
            result[key] = copy.deepcopy(value)
    return result


def parse_set(assignment: str) -> tuple[tuple[str, ...], Any]:
    """("design", "blocks"), 5 from "design.blocks=5".

    Raises UserError if there is no key or no "=".
    """
    dotted, equals, text = assignment.partition("=")
    path = tuple(part.strip() for part in dotted.split("."))
    if not equals or not all(path):
        raise UserError(f"--set {assignment}: not understood", "write KEY=VALUE, e.g. --set design.blocks=5")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word: --set server.name=mariadb-10.11
    return path, value


def with_settings(tree: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """The tree with every --set applied in order. A number in the path picks a member of a list: steps.0.measure.

    One thing is varied at a time: `vary` in an override replaces that of the file, and so do variables of a `screen`,
    which have a short form: VARIABLE=FIRST,SECOND. `factors`, and `arms` as a whole, replace arms of another kind. A
    server named in an override replaces the file's, and an arm's; an external one (dsn) its variables too, which
    configure a private server. Other data (`data.sql`) replace the file's, and another load (`steps.replay`, `.sql`,
    `.script`) the workload of the steps with its options, so that steps that differ in nothing else are one; a capture
    the data too.

    Raises UserError if a path leads through a value or past the end of a list, and for the scale itself.
    """
    has_screen = isinstance(tree.get("screen"), Mapping)
    if has_screen:
        assignments = [_of_screen(assignment, tree) for assignment in assignments]
    paths = [parse_set(assignment)[0] for assignment in assignments]
    of_server = [path for path in paths if path[0] == "server" and len(path) > 1]
    ways = {path[1] for path in of_server if len(path) == 2 or path[1] == "build"} & SERVER_WAYS
    result = copy.deepcopy(_without_server(tree, ways) if ways else dict(tree))
    if any(path[0] == "vary" for path in paths):
        result.pop("vary", None)
    if has_screen and any(path[:2] == ("screen", "variables") for path in paths):
        result["screen"].pop("variables", None)
    _make_room(result, dict(map(parse_set, assignments)))
    for path in paths:
        if len(path) == 3 and path[0] == "arms" and path[2] in SERVER_OF_ARM:
            arms = result.get("arms")
            arm = arms.get(path[1]) if isinstance(arms, dict) else None
            if isinstance(arm, dict):
                for other in SERVER_OF_ARM - {path[2]}:
                    arm.pop(other, None)
    whole = {path[0] for path in paths if path[0] == "factors" or path == ("arms",)}
    for section in whole - set(tree):
        for other in set(ARM_SECTIONS) - {section}:
            result.pop(other, None)
    for assignment in assignments:
        path, value = parse_set(assignment)
        if path[0] == "scale":
            raise UserError(f"--set {assignment}: scales are taken from the file", "choose one with --scale NAME")
        _assign(result, path, value, assignment)
    steps = result.get("steps")
    is_of_file = any(len(path) == 2 and path[0] == "steps" and path[1] in FILE_KINDS for path in paths)
    if is_of_file and isinstance(steps, list):
        result["steps"] = [one for at, one in enumerate(steps) if one not in steps[:at]]
    return result


def _make_room(tree: dict[str, Any], settings: Mapping[tuple[str, ...], Any]) -> None:
    """Remove what other data and loads take the place of."""
    data = tree.get("data")
    if isinstance(data, dict) and any(
        settings.get(("data", kind), data.get(kind)) != data.get(kind) for kind in FILE_KINDS
    ):
        tree["data"] = {}
    steps = tree.get("steps")
    for path, value in settings.items():
        if path[0] != "steps" or path[-1] not in FILE_KINDS or not isinstance(steps, list):
            continue
        chosen = [one for at, one in enumerate(steps) if path[1:-1] in ((), (str(at),)) and isinstance(one, dict)]
        for member in (one for one in chosen if one.get(path[-1]) != value):
            for key in ("workload", "options", *FILE_KINDS):
                member.pop(key, None)
            if path[-1] == "replay":
                tree.pop("data", None)


def _of_screen(assignment: str, tree: Mapping[str, Any]) -> str:
    """The short form of a screening study, VARIABLE=FIRST,SECOND, as screen.variables.VARIABLE=[FIRST, SECOND]."""
    name, equals, text = assignment.partition("=")
    is_variable = "." not in name and name.strip() not in tree and ("," in text or "_" in name)
    if not equals or not is_variable or text.strip().startswith(("[", "{")):
        return assignment
    values = [json.dumps(_plain(part.strip())) for part in text.split(",")]
    return f"screen.variables.{name.strip()}=[{', '.join(values)}]"


def _plain(text: str) -> Any:
    """A number or true or false as TOML writes it; any other word as text."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, bool | int | float) else text


def _without_server(tree: Mapping[str, Any], ways: Set[str]) -> dict[str, Any]:
    """The tree without the source of its server; its variables stay, except for an external one."""
    server = tree.get("server")
    if not isinstance(server, Mapping):
        return dict(tree)
    gone = (SERVER_WAYS - (ways & {"build"})) | ({"variables", "option_file"} if "dsn" in ways else set())
    return {**tree, "server": {key: value for key, value in server.items() if key not in gone}}


def _assign(tree: dict[str, Any], path: tuple[str, ...], value: Any, assignment: str) -> None:
    head, rest = path[0], path[1:]
    if not rest:
        tree[head] = value
        return
    child = tree.setdefault(head, {})
    if isinstance(child, list):
        if rest[0].isdigit():
            index = int(rest[0])
            if index >= len(child) or len(rest) < 2:
                raise UserError(f"--set {assignment}: {head} has {len(child)} members, counted from 0")
            _assign_in_member(child[index], rest[1:], value, assignment)
        else:
            for member in child:
                _assign_in_member(member, rest, value, assignment)
    elif isinstance(child, dict):
        _assign(child, rest, value, assignment)
    else:
        raise UserError(f"--set {assignment}: {head} is a value, not a table")


def _assign_in_member(member: Any, path: tuple[str, ...], value: Any, assignment: str) -> None:
    if not isinstance(member, dict):
        raise UserError(f"--set {assignment}: the list contains values, not tables", "set the whole list: KEY=[…]")
    _assign(member, path, value, assignment)


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
