"""Servers of the host's own Debian release: a mysqld, which runs on the host's libraries, and memcached."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mydyno.hosts.local import LocalHost
from mydyno.packages.debian import DebianPackages, DebianRelease, loader_of
from mydyno.packages.progress import Say, silent
from mydyno.servers.build import ServerBuild, find_build
from mydyno.servers.memcached import memcached_build

PACKAGES = ("memcached",)


@dataclass(frozen=True)
class DebianSource:
    """Packages by name; the first one is the server's."""

    packages: tuple[str, ...]
    download_bytes: int

    @property
    def title(self) -> str:
        """Where it comes from."""
        return f"this machine's Debian packages ({self.packages[0]})"

    def present(self, cache: Path) -> str | None:
        """The package's version, if it is unpacked."""
        found = DebianPackages(cache, LocalHost("servers", None)).present(self.packages)
        return found.versions[self.packages[0]] if found is not None else None

    async def get(self, name: str, cache: Path, host: LocalHost, say: Say) -> ServerBuild:
        """Raises HostError."""
        if self.present(cache) is None:
            say(f"downloading {self.packages[0]}: about {self.download_bytes / 1e6:.0f} MB")
        packages = await DebianPackages(cache, host).get(self.packages)
        return await find_build(name, packages.root, host, packages.environment, packages.versions)


@dataclass(frozen=True)
class DebianReleaseSource:
    """Packages of a suite by name; the first one is the server's."""

    suite: str
    packages: tuple[str, ...]
    download_bytes: int

    @property
    def title(self) -> str:
        """Where it comes from."""
        return f"Debian {self.suite} ({self.packages[0]}), with its own C library"

    def present(self, cache: Path) -> str | None:
        """The package's version, if it is unpacked."""
        found = DebianRelease(self.suite, cache, LocalHost("servers", None), silent).present(self.packages)
        return found.versions[self.packages[0]] if found is not None else None

    async def get(self, name: str, cache: Path, host: LocalHost, say: Say) -> ServerBuild:
        """Raises HostError."""
        packages = await DebianRelease(self.suite, cache, host, say).get(self.packages)
        return await find_build(name, packages.root, host, {}, packages.versions, loader_of(packages))


@dataclass(frozen=True)
class MemcachedSource:
    """Debian's package, with what the system lacks of its libraries (libevent)."""

    download_bytes: int = 500_000

    @property
    def title(self) -> str:
        """Where it comes from."""
        return "this machine's Debian packages (memcached)"

    def present(self, cache: Path) -> str | None:
        """The package's version, if it is unpacked."""
        found = DebianPackages(cache, LocalHost("servers", None)).present(PACKAGES)
        return found.versions["memcached"] if found is not None else None

    async def get(self, name: str, cache: Path, host: LocalHost, say: Say) -> ServerBuild:
        """Raises HostError."""
        if self.present(cache) is None:
            say(f"downloading memcached: about {self.download_bytes / 1e6:.1f} MB")
        packages = await DebianPackages(cache, host).get(PACKAGES)
        program = packages.find("usr/bin/memcached")
        return await memcached_build(
            name, program, packages.root / "usr", host, packages.environment, packages.versions
        )
