"""What is pushed to a host: folders, each named by a key of its content, each sent as one archive.

mydyno itself (its Python files and the engine) changes with every version and is small. The Python packages change
rarely and are large, so they are a folder of their own, and a new version of mydyno does not send them again.

So is each folder of the controller's cache that a study needs: servers, load programs, allocators.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import platform
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import mydyno
from mydyno.drivers.base import PackagedDriver
from mydyno.errors import HostError
from mydyno.execution.environments.builds import get_builds
from mydyno.execution.environments.environment import Say
from mydyno.execution.environments.private_environment import get_drivers
from mydyno.files.atomic import sha256_of
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import ENGINE_PROGRAMS, HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.packages.debian import DebianPackages
from mydyno.servers.sources.archive import FOLDER as ADDED_FOLDER
from mydyno.servers.sources.maven import LIBRARIES
from mydyno.treatments.allocator import AllocatorTreatment
from mydyno.treatments.catalogue import treatments_of

REQUIRED = (
    "asyncssh", "cryptography", "duckdb", "hdrhistogram", "jinja2", "numpy", "pydantic", "pydoe", "pymysql", "rich",
    "scipy", "typer", *(("backports-zstd",) if sys.version_info < (3, 14) else ()),
)  # fmt: skip
"""The distributions that mydyno imports, as in pyproject.toml; what they need in turn is found.

Without mydyno-engine: its programs are part of the program, wherever they are from.
"""
NOT_NEEDED = {"tests", "__pycache__", "include"}
"""Folders of packages that no program imports."""
NOT_NEEDED_OF_PYTHON = {"test", "site-packages", "__pycache__", "idlelib", "tkinter", "ensurepip", "turtledemo"}
Version = tuple[int, int]
_GLIBC = re.compile(rb"\x00GLIBC_(\d+)\.(\d+)(?=\x00|\.\d+\x00)")
_OLD_TAGS = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
PATTERNS = ("debian/*", "debian-releases/*/*", "servers/*", "/".join((*ADDED_FOLDER, "*")))
"""Where packages are unpacked in a cache."""


@dataclass(frozen=True)
class Part:
    """A folder to push."""

    name: str
    """With the key of its content; the folder's name on the host."""
    title: str
    files: Mapping[str, Path]
    """Path in the folder → file here."""
    glibc: Version
    """The lowest version that its programs and libraries run with; (0, 0) if they need none."""

    @property
    def size_bytes(self) -> int:
        """Unpacked."""
        return sum(path.stat().st_size for path in self.files.values())

    def archive(self, folder: Path) -> Path:
        """The compressed archive in a folder of the cache; made if it is not there. Blocks for seconds."""
        path = folder / f"{self.name}.tar.gz"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f".{self.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if path.is_file():
                return path
            aside = path.with_name(f".{path.name}.new")
            with tarfile.open(aside, "w:gz", compresslevel=1) as archive:
                for name, file in sorted(self.files.items()):
                    archive.add(file, name, recursive=False, filter=_plain)
            aside.rename(path)
        return path


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without the controller's users; readable by all, as the server's user needs it."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member


def packages_part() -> Part:
    """The Python packages that mydyno imports, from the present environment. Raises HostError."""
    found = _distributions()
    files: dict[str, Path] = {}
    for distribution in found.values():
        name = distribution.metadata["Name"]
        if distribution.files is None:
            raise HostError(
                f"the Python package {name} has no list of its files",
                "start mydyno with ./mydyno, or install it with uv, pipx or pip",
            )
        for file in distribution.files:
            path = Path(str(file.locate()))
            if file.parts[0] != ".." and not NOT_NEEDED & set(file.parts) and path.is_file():
                files[file.as_posix()] = path
    versions = sorted(f"{name}=={distribution.version}" for name, distribution in found.items())
    key = _key([python_tag(), sysconfig.get_platform(), *versions])
    glibc = max(
        (_glibc_of_wheel(distribution.read_text("WHEEL") or "") for distribution in found.values()), default=(0, 0)
    )
    return Part(f"packages-{key}", "Python packages", files, glibc)


def program_part(engine: Path, packages: Part) -> Part:
    """mydyno's Python files and the engine. Raises HostError if the engine is not built."""
    root = Path(mydyno.__file__).parent
    files = {
        f"src/mydyno/{path.relative_to(root)}": path
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for name in ENGINE_PROGRAMS:
        path = engine / name
        if not path.is_file():
            raise HostError(
                f"the engine's program {name} is not at {path}",
                f"install mydyno-engine {mydyno.__version__}, or start mydyno with ./mydyno",
            )
        files[f"engine/{name}"] = path
    content = [f"{name} {sha256_of(path)}" for name, path in sorted(files.items())]
    needed = max(glibc_of_programs(engine / name for name in ENGINE_PROGRAMS), (0, 0))
    return Part(_key([packages.name, *content]), f"mydyno {mydyno.__version__}", files, needed)


def python_part(prefix: Path = Path(sys.base_prefix)) -> Part | None:
    """The interpreter that runs this program; None if it belongs to the system and cannot be moved."""
    library = prefix / "lib" / f"python{python_tag()}"
    program = prefix / "bin" / f"python{python_tag()}"
    if prefix in (Path("/usr"), Path("/usr/local"), Path("/")) or not (program.is_file() and library.is_dir()):
        return None
    files = {f"bin/{program.name}": program.resolve()}
    for path in library.rglob("*"):
        inside = path.relative_to(library).parts
        if path.is_file() and not NOT_NEEDED_OF_PYTHON & set(inside) and not inside[0].startswith("config-"):
            files[f"lib/{library.name}/{'/'.join(inside)}"] = path
    for path in (prefix / "lib").glob("libpython*.so*"):
        files[f"lib/{path.name}"] = path.resolve()
    key = _key([sys.version, sysconfig.get_platform(), *sorted(files)])
    return Part(f"python-{key}", f"Python {python_tag()}", files, glibc_of_programs([program]))


def python_tag() -> str:
    """Version of the running Python, e.g. "3.11"."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def glibc_of_programs(paths: Iterable[Path]) -> Version:
    """The newest version of glibc that the symbols of ELF files need; (0, 0) for static ones."""
    found = [(0, 0)]
    for path in paths:
        found += [(int(major), int(minor)) for major, minor in _GLIBC.findall(path.read_bytes())]
    return max(found)


def machine() -> str:
    """The architecture, as uname -m prints it."""
    return platform.machine()


def _glibc_of_wheel(text: str) -> Version:
    """From the platform tags of a wheel's WHEEL file; of several the lowest is enough."""
    found = [
        (int(major), int(minor)) for major, minor in re.findall(r"^Tag: \S+-manylinux_(\d+)_(\d+)_", text, re.MULTILINE)
    ]
    found += [version for tag, version in _OLD_TAGS.items() if f"-{tag}_" in text]
    return min(found, default=(0, 0))


def _distributions() -> dict[str, importlib.metadata.Distribution]:
    """Those in REQUIRED and what all require: installation decided markers."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(REQUIRED)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if name in REQUIRED:
                raise HostError(
                    f"the Python package {name} is not installed", "install mydyno again, or start it with ./mydyno"
                ) from None
            continue
        for requirement in found[name].requires or ():
            match = re.match(r"[A-Za-z0-9._-]+", requirement)
            if match and "extra ==" not in requirement:
                waiting.append(match[0])
    return found


def _key(content: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(content).encode()).hexdigest()[:16]


def archives_folder(cache: Path) -> Path:
    """Where archives to push are kept."""
    return cache / "hosts"


def remove_old_archives(folder: Path, kept: Iterable[Part]) -> None:
    """Remove archives of other versions: only the present one is ever pushed."""
    names = {f"{part.name}.tar.gz" for part in kept}
    for path in folder.glob("*.tar.gz"):
        if path.name not in names:
            path.unlink(missing_ok=True)
            (folder / f".{path.name.removesuffix('.tar.gz')}.lock").unlink(missing_ok=True)


async def package_folders(experiment: Experiment, paths: HostPaths, say: Say) -> list[Path]:
    """The folders, downloaded now where the cache lacks them. Raises HostError and UserError.

    A server in server.basedir is not among them: it must be at the same path on every host.
    """
    if experiment.server.dsn is not None:
        return []
    host = LocalHost("hosts", paths.server_user)
    used: list[Path] = []
    for build in (await get_builds(experiment, paths, host, say)).values():
        used += [build.program, *build.folders]
    drivers, _ = await get_drivers(experiment, paths, host, say)
    packages = DebianPackages(paths.cache, host)
    of_drivers = [(one.package,) for one in drivers.values() if isinstance(one, PackagedDriver)]
    for names in (*of_drivers, LIBRARIES):
        found = packages.present(names)
        if found is not None and (names != LIBRARIES or any(found.root in path.parents for path in used)):
            used.append(found.root)
    for arm in experiment.arms:
        for treatment in treatments_of(arm):
            await treatment.get(paths, host)
            if isinstance(treatment, AllocatorTreatment):
                used.append(treatment.library)
    return folders_with(used, paths.cache)


def folders_with(used: Iterable[Path], cache: Path) -> list[Path]:
    """The folders of packages in the cache that contain any of these files."""
    used = list(used)
    return [
        folder
        for pattern in PATTERNS
        for folder in sorted(cache.glob(pattern))
        if folder.is_dir()
        and not folder.name.startswith(".")
        and folder != cache.joinpath(*ADDED_FOLDER)
        and any(path.is_relative_to(folder) for path in used)
    ]
