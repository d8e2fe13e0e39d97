"""`option_file = "my.cnf"` of [server], [treatments] or an arm: its options become variables but for mydyno's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mydyno.experiment_file.overrides import OF_EVERY_ARM
from mydyno.model.definition.problems import Key, Problem
from mydyno.model.definition.server_options import option_name, reserved_because
from mydyno.model.server_version import ServerVersion
from mydyno.servers.catalogue import known_servers
from mydyno.servers.option_file import groups_of, is_of_a_version, options_of, read_option_file

COMMON = frozenset({"mysqld", "server"})
"""The sections that every server reads."""


def with_option_files(tree: dict[str, Any], folder: Path) -> tuple[dict[str, Any], list[Problem]]:
    """The tree with the variables of its option files, under those that it sets itself; what is wrong with them.

    Paths are relative to `folder`, and absolute in the result. Raises UserError for a file that is no option file.
    """
    problems: list[Problem] = []
    server, shared, arms = (
        table if isinstance(table := tree.get(name), dict) else {} for name in ("server", OF_EVERY_ARM, "arms")
    )
    tables = {name: arm for name, arm in arms.items() if isinstance(arm, dict)}
    versions = [_version(arm.get("server", server.get("name"))) for arm in tables.values()]
    changed = dict(tree)
    for name, table in (("server", server), (OF_EVERY_ARM, shared)):
        if "option_file" in table:
            read = versions or [_version(server.get("name"))]
            changed[name] = _with_variables(table, (name,), folder, read, problems)
    if any("option_file" in arm for arm in tables.values()):
        own = {
            name: _with_variables(arm, ("arms", name), folder, [version], problems) if "option_file" in arm else arm
            for (name, arm), version in zip(tables.items(), versions, strict=True)
        }
        changed["arms"] = {**arms, **own}
    if problems or "dsn" not in server or changed == tree:
        return changed, problems
    return changed, [Problem(("server", "dsn"), "an external server is not configured by an option file")]


def _version(server: object) -> ServerVersion | None:
    """The version of a server of the catalogue; None: known only once the server is at hand."""
    entry = known_servers().get(server) if isinstance(server, str) else None
    return None if entry is None else entry.version


def _with_variables(
    table: dict[str, Any], key: Key, folder: Path, versions: list[ServerVersion | None], problems: list[Problem]
) -> dict[str, Any]:
    name, key = table["option_file"], (*key, "option_file")
    path = (folder / name).resolve() if isinstance(name, str) else folder
    if not path.is_file():
        problems.append(Problem(key, "no such file", name, f"an option file of the server; looked for {path}"))
        return table
    options = read_option_file(path)
    groups = [COMMON if version is None else groups_of(version) for version in versions]
    sections = {option.section for option in options}
    doubtful = sorted({*_of_unknown(sections, versions), *_differing(sections, groups)})
    if doubtful:
        words = f"has the section [{doubtful[0]}], which not every version reads, and its servers have no one version"
        problems.append(Problem(key, words, name, "[mysqld] and [server], or server.name from the catalogue"))
        return table
    read = options_of(options, groups[0])
    if not read:
        sections_read = ", ".join(f"[{one}]" for one in sorted(groups[0]))
        problems.append(Problem(key, "has no option in a section that its server reads", name, sections_read))
        return table
    said = table.get("variables", {})
    own = {option_name(option) for option in said} if isinstance(said, dict) else set()
    found = {
        option.name: option.value
        for option in read.values()
        if option.name not in own and reserved_because(option.name, option.value) is None
    }
    return {**table, "option_file": str(path), "variables": {**found, **said}}


def _of_unknown(sections: set[str], versions: list[ServerVersion | None]) -> Iterator[str]:
    return (section for section in sections if None in versions and is_of_a_version(section))


def _differing(sections: set[str], groups: list[frozenset[str]]) -> set[str]:
    read = [sections & one for one in groups]
    return set().union(*(one ^ read[0] for one in read))
