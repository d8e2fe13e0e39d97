"""memcached from the host's own Debian release, unpacked in the cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mydyno.hosts.local import LocalHost
from mydyno.packages.debian import DebianPackages
from mydyno.packages.progress import Say
from mydyno.servers.build import ServerBuild
from mydyno.servers.memcached import memcached_build

PACKAGES = ("memcached",)


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
