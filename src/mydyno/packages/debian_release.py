"""Packages of another Debian release, with everything they need, unpacked in a private root with its own loader.

The machine's apt fetches them through lists, caches and a sources list of our own in the cache; the mirror is the one
that the machine's own sources name. Nothing is installed, and no root is needed. An empty package status makes apt name
the whole closure down to libc, so that nothing of the host's libraries is mixed in. apt checks every download against
the archive's signed hashes and resumes interrupted ones.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from mydyno.errors import ArchiveError, HostError
from mydyno.files.atomic import write_text
from mydyno.files.atomic_dir import made_once
from mydyno.hosts.local import Completed, LocalHost
from mydyno.packages.client import client_environment
from mydyno.packages.debian import UnpackedPackages, apt_words, unpack
from mydyno.packages.progress import Say, told_progress

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_URI_LINE = re.compile(r"^'[^']+' (\S+) (\d+) ")


class DebianRelease:
    """One other release of Debian, by its suite: "trixie", "unstable"."""

    def __init__(self, suite: str, cache: Path, host: LocalHost, say: Say) -> None:
        self.suite = suite
        self._folder = cache / "debian-releases" / suite
        self._host = host
        self._say = say

    def present(self, names: Sequence[str]) -> UnpackedPackages | None:
        """The unpacked packages, if they are in the cache already."""
        root = self._root(names)
        manifest = root / "packages.json"
        if not manifest.is_file():
            return None
        versions = {name: part["version"] for name, part in json.loads(manifest.read_text()).items()}
        return UnpackedPackages(root / "root", versions)

    async def get(self, names: Sequence[str]) -> UnpackedPackages:
        """The packages and their closure. Raises HostError with apt's message."""
        found = self.present(names)
        if found is None:
            async with made_once(self._root(names)) as aside:
                if self.present(names) is None:
                    await self._fetch(names, aside)
            found = self.present(names)
        assert found is not None
        return found

    def _root(self, names: Sequence[str]) -> Path:
        return self._folder / "+".join(sorted(names))

    async def _fetch(self, names: Sequence[str], aside: Path) -> None:
        if shutil.which("apt-get") is None:
            raise HostError(
                f"{', '.join(names)} comes from Debian packages, and this host has no apt-get",
                "use an installed server: server.basedir in the experiment, or --set server.basedir=PATH",
            )
        await self._prepare_lists()
        install = ["install", "--yes", "--no-install-recommends", *names]
        # In an empty folder of archives: apt names only what is not in the folder yet.
        planned = await self._apt(["-o", f"Dir::Cache::archives={self._folder}/apt/none", *install, "--print-uris"])
        parts = [match for line in planned.output.splitlines() if (match := _URI_LINE.match(line))]
        if planned.exit_code:
            raise HostError(f"Debian {self.suite} has no {', '.join(names)} for this host: {apt_words(planned.output)}")
        archives = self._folder / "apt" / "cache" / "archives"
        total = sum(int(match[2]) for match in parts)
        async with told_progress(self._say, f"{names[0]} and what it needs from Debian {self.suite}", archives, total):
            done = await self._apt([*install, "--download-only"])
        if done.exit_code:
            raise ArchiveError(
                f"apt-get could not download {', '.join(names)}: {apt_words(done.output)}",
                "is the network or mirror reachable? What was downloaded is kept: the same command continues from "
                "there",
            )
        # By name: what an interrupted download of another day left beside them may be of older versions.
        manifest = await unpack(sorted(archives / match[1] for match in parts), aside / "root")
        write_text(aside / "packages.json", json.dumps(manifest, indent=1))
        shutil.rmtree(archives, ignore_errors=True)

    async def _prepare_lists(self) -> None:
        architecture = ARCHITECTURES.get(platform.machine())
        if architecture is None:
            raise HostError(f"Debian {self.suite} has no packages for {platform.machine()} that mydyno knows")
        apt = self._folder / "apt"
        for folder in ("lists/partial", "cache/archives/partial", "none/partial"):
            (apt / folder).mkdir(parents=True, exist_ok=True)
        signed_by = f"[signed-by={KEYRING}] " if KEYRING.is_file() else ""
        write_text(apt / "sources.list", f"deb {signed_by}{await self._mirror()} {self.suite} main\n")
        write_text(apt / "status", "")
        self._say(f"reading the package lists of Debian {self.suite}")
        updated = await self._apt(["update"])
        if updated.exit_code or not list((apt / "lists").glob("*Packages*")):
            raise ArchiveError(
                f"the package lists of Debian {self.suite} cannot be read: {apt_words(updated.output)}",
                "is the mirror of this machine's apt sources reachable?",
            )

    async def _mirror(self) -> str:
        """The Debian mirror that the machine's own apt sources name for its main archive. Raises HostError."""
        form = "$(REPO_URI)|$(CODENAME)|$(COMPONENT)|$(ORIGIN)"
        told = await self._host.run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"])
        for line in told.output.splitlines():
            uri, codename, component, origin = (line.split("|") + [""] * 4)[:4]
            # On a machine that never read its lists, apt reports no origin; the archive's usual path identifies it.
            debian = origin == "Debian" or (origin.startswith("$") and uri.rstrip("/").endswith("/debian"))
            if debian and component == "main" and not re.search("-(security|updates|backports)", codename):
                return uri.rstrip("/")
        raise HostError(
            f"{self.suite}: the machine's apt sources name no Debian mirror (is it Debian?)",
            "use an installed server: server.basedir in the experiment, or --set server.basedir=PATH",
        )

    async def _apt(self, arguments: Sequence[str]) -> Completed:
        apt = self._folder / "apt"
        own = {
            "Dir::Etc::SourceList": apt / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": apt / "lists",
            "Dir::State::status": apt / "status",
            "Dir::Cache": apt / "cache",
            "APT::Architectures": ARCHITECTURES[platform.machine()],
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            "Debug::NoLocking": "1",
        }
        options = [word for name, value in own.items() for word in ("-o", f"{name}={value}")]
        command = ["apt-get", *options, "-q", *arguments]
        return await self._host.run(command, environment=client_environment(), timeout_s=3600)


def loader_of(packages: UnpackedPackages) -> tuple[str, ...]:
    """The root's own dynamic loader with its library path, to be put before a program. Raises HostError."""
    loader = packages.find("usr/lib/*/ld-linux-*.so.[0-9]", "lib/*/ld-linux-*.so.[0-9]", "usr/lib/ld-linux-*.so.[0-9]")
    return (str(loader), "--library-path", ":".join(str(folder) for folder in packages.library_folders))
