"""How --scale and --set change an experiment's tree before it is validated."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from mydyno.errors import UserError

SERVER_WAYS = frozenset({"name", "basedir", "dsn"})
"""The keys of [server] that say where it comes from; an override that sets one of them replaces all of them."""
ARM_SECTIONS = ("arms", "factors", "vary")
"""The sections that make arms; an experiment has one of them."""


def merged(tree: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """A new tree: tables are merged, everything else is replaced; a table over a list goes to each of its members.

    The last rule makes `steps.measure = "5s"` say it for all steps at once.
    """
    server = override.get("server")
    ways = SERVER_WAYS & set(server) if isinstance(server, Mapping) else set()
    result = _without_server(tree, "dsn" in ways) if ways else dict(tree)
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
    """("design", "blocks"), 5 from "design.blocks=5". Raises UserError if there is no key or no "="."""
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

    One thing is varied at a time: `vary` in an override replaces that of the file. `factors`, and `arms` as a whole,
    replace arms of another kind. A server named in an override
    replaces the file's; an external one (dsn) that of its variables too, which configure a private server.

    Raises UserError if a path leads through a value or past the end of a list, and for the scale itself.
    """
    paths = [parse_set(assignment)[0] for assignment in assignments]
    ways = {path[1] for path in paths if path[0] == "server" and len(path) == 2} & SERVER_WAYS
    result = copy.deepcopy(_without_server(tree, "dsn" in ways) if ways else dict(tree))
    if any(path[0] == "vary" for path in paths):
        result.pop("vary", None)
    whole = {path[0] for path in paths if path[0] == "factors" or path == ("arms",)}
    for section in whole - set(tree):
        for other in set(ARM_SECTIONS) - {section}:
            result.pop(other, None)
    for assignment in assignments:
        path, value = parse_set(assignment)
        if path[0] == "scale":
            raise UserError(f"--set {assignment}: scales are taken from the file", "choose one with --scale NAME")
        _assign(result, path, value, assignment)
    return result


def _without_server(tree: Mapping[str, Any], external: bool) -> dict[str, Any]:
    """The tree without the source of its server; its variables stay, except for an external one."""
    server = tree.get("server")
    if not isinstance(server, Mapping):
        return dict(tree)
    gone = SERVER_WAYS | ({"variables"} if external else set())
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
