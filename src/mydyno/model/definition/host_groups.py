"""Host groups: the hosts that one block needs, a server's host and the hosts of its load."""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, ValidationError

from mydyno.errors import UserError
from mydyno.model.definition.experiment import Frozen
from mydyno.model.definition.problems import NAME_PATTERN, Key, Problem, from_validation, unknown
from mydyno.model.definition.toml_source import TomlSource

SSH_PORT = 22
LOCAL = "local"
"""The host that mydyno itself runs on."""
MOST_HOSTS = 1000
"""A larger range is a mistake."""
ALLOWED = "local, user@host, user@host:port, ranges such as bench@vm[01-20], a list of these, or a file.toml"
_ADDRESS = re.compile(
    r"(?:(?P<user>[^@\s:/\[\]]+)@)?(?P<host>[A-Za-z0-9_][\w.-]*|\[[0-9A-Fa-f:.%\w]+\])(?::(?P<port>\d+))?"
)
_RANGE = re.compile(r"\[([^\[\]:]*)\]")


@dataclass(frozen=True)
class Address:
    """Where a host is reached by SSH, or the local host. What is None comes from ~/.ssh/config."""

    text: str
    user: str | None
    host: str
    """A name of DNS or ~/.ssh/config, or an IP address without brackets."""
    port: int | None

    @property
    def place(self) -> tuple[str, int]:
        """The same for two addresses of one host, whoever the user is."""
        return self.host.lower(), self.port or SSH_PORT

    @classmethod
    def parse(cls, text: str) -> Address:
        """From user@host:port; user and port may be absent. Raises UserError."""
        found = _ADDRESS.fullmatch(text)
        if found is None:
            raise UserError(f"{text!r}: not an address of a host", f"allowed: {ALLOWED}")
        port = int(found["port"]) if found["port"] else None
        if port is not None and not 0 < port < 65536:
            raise UserError(f"{text}: port {port} does not exist", "allowed: 1 to 65535")
        return cls(text, found["user"], found["host"].strip("[]"), port)


class HostGroup(Frozen):
    """The hosts of one block. A block never uses hosts of two groups."""

    name: str
    server: str | None = None
    """The address of the server's host; None: the host that mydyno runs on."""
    clients: tuple[str, ...] = ()
    """The addresses of the hosts of the load; empty: the load runs on the server's host."""
    address: str | None = None
    """The IP address of the server's host on the network that the clients load it over: servers listen there."""
    data: str | None = None
    """The folder of templates and data directories on the server's host; None: MYDYNO_DATA there, else in its cache."""

    @property
    def load_hosts(self) -> LoadHosts | None:
        """Where the load runs; None: on the server's host. Raises UserError without an address."""
        if not self.clients:
            return None
        if self.address is None:
            raise UserError(
                f"the group {self.name} has clients, but no address on which they reach its server",
                "set address to the IP address of the server's host on the network that carries the load, e.g. "
                'address = "10.0.0.5"; servers listen on that address alone while they are measured',
            )
        return LoadHosts(names=tuple(self.client_names), address=self.address)

    @property
    def client_names(self) -> dict[str, str]:
        """{name: address} of the clients: the host, with its port where two have the same host."""
        parsed = [Address.parse(client) for client in self.clients]
        hosts = [one.host for one in parsed]
        return {
            one.host if hosts.count(one.host) == 1 else f"{one.host}-{one.port or SSH_PORT}": one.text for one in parsed
        }

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every host that is reached by SSH, the server's first."""
        return tuple(address for address in (self.server or LOCAL, *self.clients) if address != LOCAL)


class LoadHosts(Frozen):
    """Where the load of a block runs when it is not the server's host."""

    names: tuple[str, ...]
    """Of the client hosts."""
    address: str
    """Where the server listens for them."""


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


def address_problem(text: str) -> str | None:
    """Why a server must not listen on an address for its clients; None if it may."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "is not an IP address"
    if address.is_unspecified:
        return "stands for all addresses of the host, public ones too"
    return "cannot be listened on" if address.is_multicast else None


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
