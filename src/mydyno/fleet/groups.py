"""--hosts as the user writes it, a list of addresses or a TOML file of groups; and what a study on groups cannot do."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from mydyno.errors import UserError
from mydyno.execution.planning.forecast import load_host_obstacles
from mydyno.experiment_file.toml_source import TomlSource, toml_text
from mydyno.model.definition.experiment import Experiment, Frozen
from mydyno.model.definition.host_groups import ALLOWED, LOCAL, SSH_PORT, Address, HostGroup, address_problem
from mydyno.model.definition.problems import NAME_PATTERN, Key, Problem, from_validation, unknown
from mydyno.treatments.server import server_of

MOST_HOSTS = 1000
"""A larger range is a mistake."""
_RANGE = re.compile(r"\[([^\[\]:]*)\]")


def parse_hosts(text: str, data: Path | None = None) -> tuple[HostGroup, ...]:
    """The groups that `local`, `bench@vm[01-20]`, a list of these, or the path of a .toml file names.

    `data`: --data, for groups that have no folder of their own. Raises UserError for an empty list or range, a host
    that is named twice, every mistake of a file, and a relative path of the data.
    """
    groups = _groups_of(text)
    if data is None:
        return groups
    if any(group.server for group in groups) and not data.is_absolute():
        raise UserError(f"--data {data}: on other hosts only an absolute path", "it is the same on each host")
    return tuple(group.model_copy(update={"data": group.data or str(data.absolute())}) for group in groups)


def _groups_of(text: str) -> tuple[HostGroup, ...]:
    if not text.endswith(".toml"):
        return groups_of_list(text)
    try:
        content = Path(text).read_bytes()
    except FileNotFoundError:
        raise UserError(f"--hosts {text}: no such file", "docs/guides/hosts.md has an example") from None
    except OSError as error:
        raise UserError(f"--hosts {text}: cannot be read: {error}") from None
    return groups_of_file(text, toml_text(text, content))


class GroupTable(Frozen):
    """One [[group]] of a file."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)] | None = None
    server: str
    clients: tuple[str, ...] = ()
    address: str | None = None
    data: Annotated[str, Field(pattern="^/")] | None = None


def groups_of_list(text: str) -> tuple[HostGroup, ...]:
    """One group for each address of a list such as `local,bench@vm[01-20]`. Raises UserError."""
    hosts = [Address.parse(address) for part in split_list(text) for address in expanded(part)]
    if not hosts:
        raise UserError("--hosts is empty", f"allowed: {ALLOWED}")
    names = [host.host for host in hosts]
    groups = [
        HostGroup(
            name=host.host if names.count(host.host) == 1 else f"{host.host}-{host.port or SSH_PORT}",
            server=None if host.text == LOCAL else host.text,
        )
        for host in hosts
    ]
    return checked(groups, "--hosts")


def groups_of_file(name: str, text: str) -> tuple[HostGroup, ...]:
    """The groups of a TOML document. Raises UserError that lists every mistake with its line."""
    source = TomlSource.parse(name, text)
    problems: list[Problem] = [unknown((key,), "key", key, ["group"]) for key in source.tree if key != "group"]
    tables = source.tree.get("group", [])
    if not (isinstance(tables, list) and tables and all(isinstance(table, dict) for table in tables)):
        problems.append(Problem(("group",), "is missing", allowed='[[group]] tables with server = "user@host"'))
        tables = []
    groups: list[HostGroup] = []
    for index, table in enumerate(tables):
        found = _group(table, index)
        if isinstance(found, HostGroup):
            groups.append(found)
        else:
            problems += found
    if problems:
        lines = [problem.text(source.place(problem.key)) for problem in problems]
        raise UserError("\n  ".join(lines), "docs/guides/hosts.md has an example")
    return checked(groups, name)


def _group(table: dict[str, Any], index: int) -> HostGroup | list[Problem]:
    key = ("group", index)
    try:
        found = GroupTable.model_validate(table)
    except ValidationError as error:
        return from_validation(error, key, {"group": GroupTable})
    try:
        servers = _addresses([found.server])
    except UserError as error:
        return [_problem((*key, "server"), found.server, error)]
    try:
        clients = _addresses(found.clients)
    except UserError as error:
        return [_problem((*key, "clients"), list(found.clients), error)]
    if len(servers) > 1:
        return [Problem((*key, "server"), "a group has one server", found.server, "one [[group]] for each server")]
    wrong = None if found.address is None else address_problem(found.address)
    if wrong is not None:
        return [
            Problem((*key, "address"), wrong, found.address, 'an IP address of the server\'s host, e.g. "10.0.0.5"')
        ]
    server = None if servers[0] == LOCAL else servers[0]
    name = found.name or (LOCAL if server is None else Address.parse(server).host)
    return HostGroup(name=name, server=server, clients=tuple(clients), address=found.address, data=found.data)


def _addresses(texts: Sequence[str]) -> list[str]:
    return [Address.parse(address).text for text in texts for address in expanded(text)]


def _problem(key: Key, value: object, error: UserError) -> Problem:
    return Problem(key, error.message, value, error.hint.removeprefix("allowed: "))


def checked(groups: Sequence[HostGroup], source: str) -> tuple[HostGroup, ...]:
    """The groups, none with the name or a host of another. Raises UserError."""
    owner: dict[tuple[str, int], str] = {}
    for group in groups:
        for address in (group.server or LOCAL, *group.clients):
            place = Address.parse(address).place
            if place in owner:
                between = f" (groups {owner[place]} and {group.name})" if source != "--hosts" else ""
                raise UserError(
                    f"{source}: the host {address} is named twice{between}",
                    "every host belongs to one group: two blocks on one host would disturb each other",
                )
            owner[place] = group.name
    names = [group.name for group in groups]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{source}: two groups have the name {name!r}", "set name of each [[group]]")
    return tuple(groups)


def split_list(text: str) -> list[str]:
    """The parts of a list; commas inside of brackets belong to a range. Raises UserError for an empty part."""
    parts = [part.strip() for part in re.split(r",(?![^\[]*\])", text)]
    if len(parts) > 1 and not all(parts):
        raise UserError(f"--hosts {text}: an empty name between commas", f"allowed: {ALLOWED}")
    return [part for part in parts if part]


def expanded(text: str) -> list[str]:
    """Every address of one with ranges: vm[01-03,7] → vm01, vm02, vm03, vm7. Raises UserError."""
    pieces = _RANGE.split(text)
    choices = [[piece] if index % 2 == 0 else _members(piece, text) for index, piece in enumerate(pieces)]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > MOST_HOSTS:
        raise UserError(f"{text}: {count} hosts", f"allowed: at most {MOST_HOSTS}")
    return ["".join(parts) for parts in itertools.product(*choices)]


def _members(inside: str, text: str) -> list[str]:
    """The numbers of a range, each with the zeros of its start."""
    found = []
    for part in inside.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match is None:
            raise UserError(f"{text}: [{inside}] is not a range", "allowed: numbers such as [01-20] or [1-3,7]")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise UserError(f"{text}: [{inside}] is empty: {first} is larger than {last}", f"[{last}-{first}]?")
        if int(last) - int(first) >= MOST_HOSTS:
            raise UserError(f"{text}: {int(last) - int(first) + 1} hosts", f"allowed: at most {MOST_HOSTS}")
        width = len(first) if first.startswith("0") else 0
        found += [str(number).zfill(width) for number in range(int(first), int(last) + 1)]
    return found


def check_server(experiment: Experiment, asked: str, instead: str) -> None:
    """Raises UserError for a server that several hosts cannot have. `asked`: by the user; `instead`: what to do."""
    if experiment.server.dsn is not None:
        raise UserError(
            f"{asked}: an external server (server.dsn) is one server; blocks on several hosts would load it together",
            f"{instead}, or use server.name",
        )
    if any(server_of(arm, experiment.server).build is not None for arm in experiment.arms):
        raise UserError(
            f"{asked}: a server built from source (server.build) is built and run on this host alone",
            f"{instead}; or build it, pack it as a tar archive, and use `mydyno servers add` on each host",
        )


def check_groups(experiment: Experiment, groups: Sequence[HostGroup]) -> None:
    """Raises UserError for what a study over host groups cannot do."""
    check_server(experiment, "--hosts", "leave --hosts out")
    with_clients = [group.name for group in groups if group.load_hosts is not None]
    if with_clients and len(with_clients) < len(groups):
        alone = next(group.name for group in groups if not group.clients)
        raise UserError(
            f"--hosts: the group {with_clients[0]} has clients, the group {alone} has none",
            "one study has one way to load its servers: name clients in every [[group]] or in none",
        )
    obstacles = load_host_obstacles(experiment) if with_clients else []
    if obstacles:
        raise UserError(
            "--hosts: the load cannot come from client hosts:\n  " + "\n  ".join(obstacles),
            "remove `clients` from the [[group]] tables, or change the experiment",
        )
