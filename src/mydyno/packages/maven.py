"""Artifacts of Maven repositories, fetched by the machine's own mvn into a private repository folder in the cache.

mvn itself checks each file against the repository's checksums and resumes none: an interrupted download starts clean.
The SHA-256 of what mydyno was tried with is checked again here, because these artifacts never change.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import ArchiveError, HostError
from mydyno.files.atomic import sha256_of
from mydyno.hosts.local import LocalHost
from mydyno.packages.debian import HASH_HINT, JAVA_NAMES, client_environment
from mydyno.packages.progress import Say, told_progress


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
