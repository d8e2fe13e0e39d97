"""How --scale and --set change an experiment's tree before it is validated."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Mapping, Sequence, Set
from typing import Any

from mydyno.errors import UserError
from mydyno.model.definition.experiment import FILE_KINDS

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
    if isinstance(tree.get("screen"), Mapping):
        assignments = [_of_screen(assignment, tree) for assignment in assignments]
    paths = [parse_set(assignment)[0] for assignment in assignments]
    of_server = [path for path in paths if path[0] == "server" and len(path) > 1]
    ways = {path[1] for path in of_server if len(path) == 2 or path[1] == "build"} & SERVER_WAYS
    result = copy.deepcopy(_without_server(tree, ways) if ways else dict(tree))
    if any(path[0] == "vary" for path in paths):
        result.pop("vary", None)
    if any(path[:2] == ("screen", "variables") for path in paths):
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
    if any(len(path) == 2 and path[0] == "steps" and path[1] in FILE_KINDS for path in paths):
        result["steps"] = [one for at, one in enumerate(result["steps"]) if one not in result["steps"][:at]]
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
