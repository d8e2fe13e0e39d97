"""Host groups: the hosts that one block needs, a server's host and the hosts of its load; and how the blocks of a study
are executed by a batch system.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal

from mydyno.errors import UserError
from mydyno.model.definition.experiment import Frozen

SSH_PORT = 22
LOCAL = "local"
"""The host that mydyno itself runs on."""
ALLOWED = "local, user@host, user@host:port, ranges such as bench@vm[01-20], a list of these, or a file.toml"
_ADDRESS = re.compile(
    r"(?:(?P<user>[^@\s:/\[\]]+)@)?(?P<host>[A-Za-z0-9_][\w.-]*|\[[0-9A-Fa-f:.%\w]+\])(?::(?P<port>\d+))?"
)


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
    """Names of the client hosts."""
    address: str
    """Where the server listens for them."""


def address_problem(text: str) -> str | None:
    """Why a server must not listen on an address for its clients; None if it may."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "is not an IP address"
    if address.is_unspecified:
        return "stands for all addresses of the host, public ones too"
    return "cannot be listened on" if address.is_multicast else None


BatchKind = Literal["slurm", "kubernetes"]


class BatchJob(Frozen):
    """The job of a study: one task for each block."""

    system: BatchKind
    name: str = "mydyno"
    """Of the job, by which its tasks are found again."""
    limit_s: int = 0
    """Time limit of a task, in whole minutes."""
    program: str
    """How nodes start mydyno, for a shell."""
    data: str | None = None
    """The folder of templates and data directories on a node; None: MYDYNO_DATA there, else a temporary one."""
    options: tuple[str, ...] = ()
    """KEY=VALUE, or KEY, as the user gave them."""

    def option(self, key: str) -> str | None:
        """The value of an option; of several the last one."""
        return next((one.partition("=")[2] for one in reversed(self.options) if one.partition("=")[0] == key), None)
