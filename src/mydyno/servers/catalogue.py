"""The servers that mydyno can get by itself, by name. One entry each; how they are had is in the source's file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import UserError
from mydyno.hosts.local import LocalHost
from mydyno.model.experiment import ServerSpec
from mydyno.parts.debian import DebianPackages
from mydyno.servers.build import ServerBuild, find_build


@dataclass(frozen=True)
class CatalogueEntry:
    """One server of the catalogue, from Debian packages."""

    name: str
    title: str
    packages: tuple[str, ...]
    download_bytes: int
    """About; for plan."""


CATALOGUE: dict[str, CatalogueEntry] = {
    entry.name: entry
    for entry in (
        CatalogueEntry(
            "mariadb-10.11", "MariaDB 10.11 from Debian 12", ("mariadb-server-core", "mariadb-client-core"), 9_000_000
        ),
    )
}


async def get_build(spec: ServerSpec, cache: Path, host: LocalHost) -> ServerBuild:
    """The build that an experiment's [server] names; downloads it where it is not in the cache yet.

    Raises UserError for a base directory that holds no server, HostError where it cannot be had.
    """
    if spec.basedir is not None:
        root = Path(spec.basedir).expanduser().resolve()
        if not root.is_dir():
            raise UserError(f"server.basedir: {root} is no folder")
        return await find_build(root.name or "basedir", root, host, {})
    entry = CATALOGUE[spec.name or ""]
    packages = await DebianPackages(cache, host).get(entry.packages)
    return await find_build(entry.name, packages.root, host, packages.environment, packages.versions)
