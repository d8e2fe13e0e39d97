"""The few words of memcached's text protocol that mydyno itself speaks: proofs and counters, never the load.

memcached 1.6, doc/protocol.txt; the InnoDB plugin of MySQL 5.6 speaks the same words.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Self

from mydyno.errors import ServerError

TIMEOUT_S = 30.0
END = b"\r\n"


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
