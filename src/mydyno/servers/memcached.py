"""A memcached: the program on disk as a ServerBuild, what it is started with, native or inside mysqld.

The InnoDB memcached plugin of MySQL 5.6: what configures it before it starts, in the form that it actually reads.

Tried with 5.6.14; where its code says more, storage/innobase's plugin/innodb_memcached of 5.6/5.7:
- of cache_policies only the first row by primary key is read (innodb_config.c), when the plugin starts; an UPDATE
  afterwards changes nothing until it is installed again. So rows are written first, and there is one of each;
- `loose_` keeps a server that does not have the plugin yet from refusing its options at the start;
- flush_all would TRUNCATE the table (innodb_api.c): its policy is always disabled;
- SHOW VARIABLES shows daemon_memcached_option cut at its first space once the plugin runs: stats report what was taken.

mydyno itself speaks a few words of the text protocol (memcached 1.6, doc/protocol.txt; the plugin's are the same), for
proofs and counters, never as the load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mydyno.errors import HostError, ServerError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.ports import LOOPBACK
from mydyno.model.definition.experiment import Scalar
from mydyno.model.server_version import ServerVersion
from mydyno.servers.build import ServerBuild, program_folders

MIB = 1 << 20
SPARE_CONNECTIONS = 64
COMMANDS = ("get", "set", "delete")
_CHOICES = "ENUM('innodb_only', 'cache_only', 'caching', 'disabled') NOT NULL"
TIMEOUT_S = 30.0
END = b"\r\n"


async def memcached_build(
    name: str, program: Path, root: Path, host: LocalHost, environment: Mapping[str, str], packages: Mapping[str, str]
) -> ServerBuild:
    """The build of this program, with the version that it reports. Raises HostError if it does not start."""
    folders = program_folders(root, (), environment)
    reported = await host.run(
        [str(program), "--version"], environment=environment, as_server=True, folders=folders, timeout_s=30
    )
    if reported.exit_code:
        raise HostError(f"{program} does not start: {reported.output.strip()[-500:]}")
    return ServerBuild(
        name=name,
        program=program,
        basedir=root,
        messages=root,
        plugins=root,
        version=ServerVersion.parse(reported.output.strip()),
        environment=dict(environment),
        packages=dict(packages),
    )


@dataclass(frozen=True)
class MemcachedOptions:
    """Port, memory and threads of one memcached."""

    port: int
    memory_bytes: int = 64 * MIB
    """memcached's own default, the plugin's too."""
    threads: int = 4
    connections: int = 1024
    """Connections that it takes, mydyno's own among them."""
    listen: str = LOOPBACK
    """The one address on which it listens."""

    @property
    def words(self) -> list[str]:
        """As memcached's command line and daemon_memcached_option take them; one address, no UDP."""
        memory = str(self.memory_bytes // MIB)
        return [
            "-l", self.listen, "-p", str(self.port), "-U", "0",
            "-m", memory, "-t", str(self.threads), "-c", str(self.connections),
        ]  # fmt: skip


def configuring_sql(policies: Mapping[str, str]) -> list[str]:
    """Statements that make the plugin's tables, say the policy of each command, name our table, and install it."""
    columns = ", ".join(f"{command}_policy {_CHOICES}" for command in (*COMMANDS, "flush"))
    choices = ", ".join(f"'{policies[command]}'" for command in COMMANDS)
    return [
        "CREATE DATABASE IF NOT EXISTS innodb_memcache",
        f"CREATE TABLE innodb_memcache.cache_policies (policy_name VARCHAR(40) PRIMARY KEY, {columns}) ENGINE = InnoDB",
        "CREATE TABLE innodb_memcache.containers (name VARCHAR(50) NOT NULL PRIMARY KEY, "
        "db_schema VARCHAR(250) NOT NULL, db_table VARCHAR(250) NOT NULL, key_columns VARCHAR(250) NOT NULL, "
        "value_columns VARCHAR(250), flags VARCHAR(250) NOT NULL DEFAULT '0', cas_column VARCHAR(250), "
        "expire_time_column VARCHAR(250), unique_idx_name_on_key VARCHAR(250) NOT NULL) ENGINE = InnoDB",
        "CREATE TABLE innodb_memcache.config_options (name VARCHAR(50) NOT NULL PRIMARY KEY, value VARCHAR(50)) "
        "ENGINE = InnoDB",
        f"INSERT INTO innodb_memcache.cache_policies VALUES ('mydyno', {choices}, 'disabled')",
        "INSERT INTO innodb_memcache.containers VALUES ('kv', 'sbtest', 'kv', 'k', 'v', 'flags', 'cas', 'expires', "
        "'PRIMARY')",
        "INSERT INTO innodb_memcache.config_options VALUES ('separator', '|'), ('table_map_delimiter', '.')",
        "INSTALL PLUGIN daemon_memcached SONAME 'libmemcached.so'",
    ]


def plugin_variables(options: MemcachedOptions, read_batch: int, write_batch: int) -> dict[str, Scalar]:
    """The plugin's options for my.cnf; none of them can be changed while it runs."""
    return {
        "loose_daemon_memcached_option": " ".join(options.words),
        "loose_daemon_memcached_r_batch_size": read_batch,
        "loose_daemon_memcached_w_batch_size": write_batch,
    }


@dataclass(frozen=True)
class Found:
    """A value that was found."""

    value: bytes
    flags: int


class MemcachedClient:
    """One connection over TCP. Use as an async context manager; every failure is a ServerError."""

    def __init__(self, host: str, port: int, timeout_s: float = TIMEOUT_S) -> None:
        self._host = host
        self._port = port
        self._timeout_s = timeout_s
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        try:
            opening = asyncio.open_connection(self._host, self._port)
            self._streams = await asyncio.wait_for(opening, self._timeout_s)
        except (OSError, TimeoutError) as error:
            raise ServerError(f"memcached at {self._host}:{self._port}: {error or 'no answer'}") from error
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._streams is not None:
            self._streams[1].close()

    async def version(self) -> str:
        """The version of memcached itself; for the plugin, that of MySQL."""
        return (await self._request("version")).decode(errors="replace").removeprefix("VERSION ")

    async def stats(self, group: str = "") -> dict[str, str]:
        """The output of `stats`, or of one of its groups (settings, slabs)."""
        line = await self._request(f"stats {group}".strip())
        found = {}
        while line != b"END":
            words = line.decode(errors="replace").split(" ", 2)
            if words[0] != "STAT":
                raise ServerError(f"stats {group}: memcached said {line.decode(errors='replace')!r}")
            found[words[1]] = words[2] if len(words) > 2 else ""
            line = await self._line()
        return found

    async def set(self, key: str, value: bytes) -> bool:
        """Store a value; whether it was stored."""
        return await self._request(f"set {key} 0 0 {len(value)}", value) == b"STORED"

    async def get(self, key: str) -> Found | None:
        """The value of a key; None if it does not exist."""
        line = await self._request(f"get {key}")
        if line == b"END":
            return None
        words = line.split()
        if len(words) < 4 or words[0] != b"VALUE":
            raise ServerError(f"get {key}: memcached said {line.decode(errors='replace')!r}")
        value = await self._exactly(int(words[3]) + len(END))
        if await self._line() != b"END":
            raise ServerError(f"get {key}: more than one value came back")
        return Found(value.removesuffix(END), int(words[2]))

    async def delete(self, key: str) -> bool:
        """Delete a key; returns whether it existed."""
        return await self._request(f"delete {key}") == b"DELETED"

    async def _request(self, command: str, data: bytes | None = None) -> bytes:
        assert self._streams is not None
        writer = self._streams[1]
        writer.write(command.encode() + END + (data + END if data is not None else b""))
        return await self._line()

    async def _line(self) -> bytes:
        assert self._streams is not None
        try:
            line = await asyncio.wait_for(self._streams[0].readuntil(END), self._timeout_s)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ServerError(f"memcached at {self._host}:{self._port}: {error or 'no answer'}") from error
        return line.removesuffix(END)

    async def _exactly(self, count: int) -> bytes:
        assert self._streams is not None
        try:
            return await asyncio.wait_for(self._streams[0].readexactly(count), self._timeout_s)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise ServerError(f"memcached at {self._host}:{self._port}: {error or 'no answer'}") from error


def numbers(stats: dict[str, str]) -> dict[str, float]:
    """The statistics that are numbers, under memcached_NAME, as counters of a server."""
    found = {}
    for name, value in stats.items():
        try:
            found[f"memcached_{name}"] = float(value)
        except ValueError:
            continue
    return found
