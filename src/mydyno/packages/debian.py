"""Debian packages, downloaded with the machine's own apt configuration and unpacked in the cache; never installed.

No root is needed. What the packages depend on and the system lacks is unpacked beside them, and programs find it
through LD_LIBRARY_PATH. apt checks every download against the archive's signed hashes; an interrupted one starts clean.
All package clients have the user's own settings (proxies, Java), which children otherwise do not inherit.

Packages of another Debian release are unpacked with everything they need in a private root with its own loader. The
machine's apt fetches them through lists, caches and a sources list of our own in the cache; the mirror is the one
that the machine's own sources name. Nothing is installed, and no root is needed. An empty package status makes apt name
the whole closure down to libc, so that nothing of the host's libraries is mixed in. apt checks every download against
the archive's signed hashes and resumes interrupted ones.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import ArchiveError, HostError
from mydyno.files.atomic import made_once, sha256_of, write_text
from mydyno.hosts.local import Completed, LocalHost
from mydyno.packages.progress import Say, told_progress
from mydyno.packages.tar_archive import extract_packages

NO_DEBIAN = "use an installed server: server.basedir in the experiment, or --set server.basedir=PATH"
LIBRARY_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib", "lib")
_INSTALL_LINE = re.compile(r"^Inst (\S+) (?:\[\S+\] )?\((\S+)")
NAMES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
JAVA_NAMES = ("JAVA_HOME", "JAVA_TOOL_OPTIONS", "MAVEN_OPTS", "MAVEN_ARGS", *NAMES)
HASH_HINT = "retry; if it differs again, the registry serves another file"
"""Where a downloaded file does not have its hash."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_URI_LINE = re.compile(r"^'[^']+' (\S+) (\d+) ")


@dataclass(frozen=True)
class UnpackedPackages:
    """Packages unpacked below one root folder."""

    root: Path
    versions: dict[str, str]
    """Package name → version, dependencies included."""

    @property
    def library_folders(self) -> list[Path]:
        """The folders of shared libraries below the root."""
        return [self.root / folder for folder in LIBRARY_FOLDERS if (self.root / folder).is_dir()]

    @property
    def environment(self) -> dict[str, str]:
        """What a program from these packages needs to find its libraries."""
        environment = {"LD_LIBRARY_PATH": ":".join(str(folder) for folder in self.library_folders)}
        # libmariadb looks for its authentication plugins (caching_sha2_password) at a path fixed when it was built.
        plugins = [folder for root in self.library_folders for folder in [root / "libmariadb3" / "plugin"]]
        found = next((folder for folder in plugins if folder.is_dir()), None)
        return environment | ({"MARIADB_PLUGIN_DIR": str(found)} if found else {})

    def find(self, *candidates: str) -> Path:
        """The first candidate that is there. Raises HostError naming them all."""
        for candidate in candidates:
            for path in sorted(self.root.glob(candidate)):
                return path
        raise HostError(f"none of {', '.join(candidates)} is in {self.root} ({', '.join(self.versions)})")


class _PackageSets(ABC):
    """Sets of packages in a folder of the cache, each unpacked with what it needs."""

    def __init__(self, folder: Path, host: LocalHost) -> None:
        self._folder = folder
        self._host = host

    def present(self, names: Sequence[str]) -> UnpackedPackages | None:
        """The unpacked packages, if they are in the cache already."""
        root, manifest = self._places(names)
        if not (manifest.is_file() and root.is_dir()):
            return None
        versions = {name: part["version"] for name, part in json.loads(manifest.read_text()).items()}
        return UnpackedPackages(root, versions)

    async def get(self, names: Sequence[str]) -> UnpackedPackages:
        """The packages, fetched where the cache lacks them. Raises HostError with apt's message."""
        found = self.present(names)
        if found is None:
            async with made_once(self._set(names)) as aside:
                if self.present(names) is None:  # another process may have made it while this one waited
                    if shutil.which("apt-get") is None:
                        raise HostError(
                            f"{', '.join(names)} comes from Debian packages, and this host has no apt-get", NO_DEBIAN
                        )
                    await self._fetch(names, aside)
            found = self.present(names)
        assert found is not None
        return found

    def _set(self, names: Sequence[str]) -> Path:
        return self._folder / "+".join(sorted(names))

    @abstractmethod
    def _places(self, names: Sequence[str]) -> tuple[Path, Path]:
        """Where a set has its tree, and the file that lists its packages."""

    @abstractmethod
    async def _fetch(self, names: Sequence[str], aside: Path) -> None:
        """Download and unpack a set into the folder. Raises HostError with apt's message."""


class DebianPackages(_PackageSets):
    """Packages of this host's release, with what the system lacks of their dependencies."""

    def __init__(self, cache: Path, host: LocalHost) -> None:
        super().__init__(cache / "debian", host)

    def _places(self, names: Sequence[str]) -> tuple[Path, Path]:
        root = self._set(names)
        return root, root.with_name(f"{root.name}.json")

    async def _fetch(self, names: Sequence[str], aside: Path) -> None:
        root, manifest_file = self._places(names)
        downloads = root.with_name(f".{root.name}.downloads")
        shutil.rmtree(downloads, ignore_errors=True)
        downloads.mkdir()
        try:
            wanted = await self._closure(names)
            await self._download(wanted, downloads)
            manifest = await unpack(sorted(downloads.glob("*.deb")), aside)
        finally:
            shutil.rmtree(downloads, ignore_errors=True)
        write_text(manifest_file, json.dumps(manifest, indent=1))

    async def _closure(self, names: Sequence[str]) -> list[str]:
        """The packages themselves and what an installation would add; with fresh lists if the machine has none."""
        simulate = ["install", "--simulate", "--no-install-recommends", "--reinstall", *names]
        result = await self._apt(simulate)
        if result.exit_code and "Unable to locate" in result.output:
            await self._refresh()
            result = await self._apt(simulate)
        if result.exit_code and "Unable to locate" in result.output:
            raise ArchiveError(
                f"apt does not know {', '.join(names)}: {apt_words(result.output)}", "apt-get update as root?"
            )
        found = {match[1] for line in result.output.splitlines() if (match := _INSTALL_LINE.match(line))}
        # A package in conflict with an installed one cannot be simulated; unpacking it aside is still harmless.
        return sorted(found | set(names))

    async def _download(self, names: Sequence[str], folder: Path) -> None:
        result = await self._apt(["download", *names], cwd=folder)
        if result.exit_code:  # old lists name files that the mirror has dropped since
            await self._refresh()
            result = await self._apt(["download", *names], cwd=folder)
        if result.exit_code:
            raise ArchiveError(
                f"apt-get download failed: {apt_words(result.output)}", "is the network or mirror reachable?"
            )

    async def _refresh(self) -> None:
        """Make package lists of our own. One unreachable extra source must not stop it; what is missing shows at once.

        Lists that could not be downloaded are not kept: they would hide the machine's own from every later call.
        """
        own = self._folder / "apt"
        (own / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        (own / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
        await self._apt(["update"], own)
        if not self._has_lists(own):
            shutil.rmtree(own)

    @staticmethod
    def _has_lists(own: Path) -> bool:
        return any((own / "lists").glob("*_Packages*"))

    async def _apt(self, arguments: Sequence[str], lists: Path | None = None, cwd: Path | None = None) -> Completed:
        """apt-get on the lists in a folder; without one, on our own where there are any, else the machine's."""
        own = self._folder / "apt"
        lists = lists or (own if self._has_lists(own) else None)
        options = ["-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=2", "-o", "Debug::NoLocking=1", "-q"]
        if lists:
            options += ["-o", f"Dir::State::Lists={lists}/lists", "-o", f"Dir::Cache={lists}/cache"]
        return await self._host.run(["apt-get", *options, *arguments], cwd=cwd, timeout_s=1800)


async def unpack(archives: Sequence[Path], root: Path) -> dict[str, dict[str, str]]:
    """Unpack .deb files below one root; gives {package: version, file, sha256}. Raises UserError, HostError."""
    await asyncio.to_thread(extract_packages, archives, root)
    manifest = {}
    for archive in archives:
        name, version = archive.name.split("_")[:2]
        version = version.replace("%3a", ":")
        manifest[name] = {"version": version, "file": archive.name, "sha256": sha256_of(archive)}
    return manifest


def apt_words(output: str) -> str:
    """apt's own error lines, or its last ones."""
    errors = [line for line in output.splitlines() if line.startswith(("E:", "Err:"))]
    return " ".join(errors or output.splitlines()[-3:])


def client_environment(names: tuple[str, ...] = NAMES) -> dict[str, str]:
    """The given environment variables that are set, with their values."""
    return {name: os.environ[name] for name in names if name in os.environ}


class DebianRelease(_PackageSets):
    """Packages of one other release of Debian, by its suite ("trixie", "unstable"), with their whole closure."""

    def __init__(self, suite: str, cache: Path, host: LocalHost, say: Say) -> None:
        super().__init__(cache / "debian-releases" / suite, host)
        self.suite = suite
        self._say = say

    def _places(self, names: Sequence[str]) -> tuple[Path, Path]:
        root = self._set(names)
        return root / "root", root / "packages.json"

    async def _fetch(self, names: Sequence[str], aside: Path) -> None:
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
        raise HostError(f"{self.suite}: the machine's apt sources name no Debian mirror (is it Debian?)", NO_DEBIAN)

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
