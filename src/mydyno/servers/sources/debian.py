"""Servers of Debian packages: of the host's own release, on its libraries, or of another one with its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mydyno.hosts.local import LocalHost
from mydyno.packages.debian import DebianPackages, DebianRelease, UnpackedPackages, loader_of
from mydyno.packages.progress import Say, silent
from mydyno.servers.build import ServerBuild, find_build
from mydyno.servers.memcached import memcached_build


@dataclass(frozen=True)
class DebianSource:
    """Packages by name; the first one is the server's."""

    packages: tuple[str, ...]
    download_bytes: int
    reports: ClassVar[bool] = False
    """Whether the client of the packages reports what it downloads."""

    @property
    def title(self) -> str:
        """Where it comes from."""
        return f"this machine's Debian packages ({self.packages[0]})"

    def _client(self, cache: Path, host: LocalHost, say: Say) -> DebianPackages | DebianRelease:  # noqa: ARG002
        return DebianPackages(cache, host)

    def present(self, cache: Path) -> str | None:
        """The package's version, if it is unpacked."""
        found = self._client(cache, LocalHost("servers", None), silent).present(self.packages)
        return found.versions[self.packages[0]] if found is not None else None

    async def get(self, name: str, cache: Path, host: LocalHost, say: Say) -> ServerBuild:
        """Raises HostError."""
        if not self.reports and self.present(cache) is None:
            megabytes = self.download_bytes / 1e6
            say(f"downloading {self.packages[0]}: about {megabytes:.{0 if megabytes >= 1 else 1}f} MB")
        return await self._build(name, await self._client(cache, host, say).get(self.packages), host)

    async def _build(self, name: str, packages: UnpackedPackages, host: LocalHost) -> ServerBuild:
        return await find_build(name, packages.root, host, packages.environment, packages.versions)


@dataclass(frozen=True)
class DebianReleaseSource(DebianSource):
    """Packages of a suite, with its own C library."""

    suite: str
    reports: ClassVar[bool] = True

    @property
    def title(self) -> str:
        """Where it comes from."""
        return f"Debian {self.suite} ({self.packages[0]}), with its own C library"

    def _client(self, cache: Path, host: LocalHost, say: Say) -> DebianRelease:
        return DebianRelease(self.suite, cache, host, say)

    async def _build(self, name: str, packages: UnpackedPackages, host: LocalHost) -> ServerBuild:
        return await find_build(name, packages.root, host, {}, packages.versions, loader_of(packages))


@dataclass(frozen=True)
class MemcachedSource(DebianSource):
    """Debian's package, with what the system lacks of its libraries (libevent)."""

    packages: tuple[str, ...] = ("memcached",)
    download_bytes: int = 500_000

    async def _build(self, name: str, packages: UnpackedPackages, host: LocalHost) -> ServerBuild:
        program = packages.find("usr/bin/memcached")
        return await memcached_build(
            name, program, packages.root / "usr", host, packages.environment, packages.versions
        )
