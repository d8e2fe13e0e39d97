"""Servers of the user's own, by name: a vendor's tar archive or a container image that `mydyno servers add` unpacked.

Each is a folder of the cache, servers/added/NAME, with the archive's tree and added.json: where it came from, its hash,
and what the program itself reports. The folder is complete or absent.

Servers from images of a registry are added in the same way: those of `mydyno servers add --image`, and an arm's
`server = "image:…"`. A vendor's archive that the catalogue names is unpacked once, and known by its checksum.
"""

from __future__ import annotations

import asyncio
import json
import platform
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from pydantic import ValidationError

from mydyno.errors import HostError, UserError
from mydyno.files.atomic import made_once, remove_tree, sha256_of, write_text
from mydyno.hosts.local import LocalHost
from mydyno.model.frozen_record import Record
from mydyno.packages.debian import DebianPackages
from mydyno.packages.oci_layout import Image, check_reference, copy_command, pull, unpack_image
from mydyno.packages.progress import Say
from mydyno.packages.tar_archive import extract
from mydyno.servers.build import ServerBuild, find_build, first_existing


def is_archive(path: Path) -> bool:
    """Whether it is a file that may be a tar archive, by its name: server.tar.xz, server.tgz."""
    return path.is_file() and (".tar" in path.suffixes or path.suffix in (".tgz", ".txz"))


async def unpacked_already(archive: Path, cache: Path) -> bool:
    """Whether the cache holds what unpacked() would give."""
    return (await _root(archive, cache)).is_dir()


async def _root(archive: Path, cache: Path) -> Path:
    checksum = await asyncio.to_thread(sha256_of, archive)
    return cache / "servers" / f"{archive.name.partition('.tar')[0]}-{checksum[:16]}"


async def unpacked(archive: Path, cache: Path) -> Path:
    """The archive's only top folder, or its whole, unpacked below the cache. Raises as extract() does."""
    root = await _root(archive, cache)
    if not root.is_dir():
        async with made_once(root) as aside:
            if not root.is_dir() and not await asyncio.to_thread(extract, archive, aside, lambda name: name):
                raise UserError(f"{archive} contains no files")
    inside = list(root.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else root


FOLDER = ("servers", "added")
RECORD_FILE = "added.json"
TREE = "tree"
LIBRARIES = ("libaio1", "libnuma1")
"""What vendors' builds need of Debian and a minimal system lacks; used only where the program needs it to start."""
LIBRARY_FOLDERS = (
    "lib64", "usr/lib64", "lib/*-linux-gnu", "usr/lib/*-linux-gnu", "lib", "usr/lib", "usr/lib64/mysql/private",
)  # fmt: skip
"""Where images keep the loader and the libraries."""
NOT_NEEDED = ("mysql-test", "mariadb-test", "sql-bench", "test-suite")
"""Folders of an archive that are not unpacked: test suites, several times as large as the server."""
_MISSING_LIBRARY = re.compile(r"error while loading shared libraries: (\S+):")
PREFIX = "image:"
"""Of the name of a server that an experiment names by its image; the cache has it by the whole name."""


class AddedServer(Record):
    """added.json."""

    format: int = 1
    name: str
    archive: str
    """The path or URL that it was taken from."""
    sha256: str
    """SHA-256 of the archive, or of the image's manifest."""
    size_bytes: int
    version: str
    """As the program reports it."""
    title: str
    """E.g. "MySQL 8.4.3"."""
    image: bool = False
    """Whether it is a container image's tree: its programs are started with the image's own loader and libraries."""
    libraries: tuple[str, ...] = ()
    """Debian packages whose libraries it is started with."""
    memcached: bool = False
    compression: tuple[str, ...] = ("zlib",)
    huge_pages: str = ""
    allocator: str = "glibc"

    @property
    def archive_name(self) -> str:
        """The archive's file name."""
        return self.archive.rpartition("/")[2]


def added_folder(cache: Path, name: str) -> Path:
    """The folder of a server of one's own; the colons of an image's name would divide a library path."""
    return cache.joinpath(*FOLDER, quote(name, safe=""))


def read_added(cache: Path) -> dict[str, AddedServer]:
    """Every server that was added, by name. One whose record cannot be read is left out."""
    found = {}
    for path in sorted(cache.joinpath(*FOLDER).glob(f"[!.]*/{RECORD_FILE}")):
        try:
            added = AddedServer.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            continue
        found[added.name] = added
    return found


class ArchiveSource:
    """The source of a server that was added."""

    def __init__(self, added: AddedServer) -> None:
        self._added = added

    @property
    def title(self) -> str:
        """Where it comes from."""
        return f"{self._added.archive} (SHA-256 {self._added.sha256[:16]}…)"

    @property
    def download_bytes(self) -> int:
        """Nothing: it is in the cache."""
        return 0

    def present(self, cache: Path) -> str | None:
        """The version, as long as it is not removed."""
        return self._added.title if (added_folder(cache, self._added.name) / RECORD_FILE).is_file() else None

    async def get(self, name: str, cache: Path, host: LocalHost, say: Say) -> ServerBuild:
        """Raises HostError if it was removed meanwhile."""
        del say
        folder = added_folder(cache, self._added.name)
        if not (folder / RECORD_FILE).is_file():
            raise HostError(f"{name} is not in the cache any more", f"mydyno servers add {name} --archive …")
        loader = image_loader(folder / TREE) if self._added.image else ()
        build = await _build(name, folder / TREE, cache, host, self._added.libraries, loader)
        return replace(build, origin=f"{self._added.archive}, sha256:{self._added.sha256}")


@asynccontextmanager
async def _new_folder(name: str, cache: Path) -> AsyncIterator[Path]:
    folder = added_folder(cache, name)
    async with made_once(folder) as aside:
        if folder.exists():
            raise UserError(f"a server {name} was added already", f"mydyno servers remove {name}")
        yield aside


async def add(
    name: str, archive: Path, origin: str, sha256: str, cache: Path, host: LocalHost, say: Say
) -> AddedServer:
    """Unpack an archive whose hash was checked, find the server in it, and keep it by this name.

    `origin` is what the user named: the path or a URL. Raises UserError for an archive that is none, leads out of its
    folder, or contains no server that starts here.
    """
    async with _new_folder(name, cache) as aside:
        say(f"unpacking {archive.name}")
        unpacked, tree = aside / "unpacked", aside / TREE
        if not extract(archive, unpacked, _wanted):
            raise UserError(f"{archive} contains no files")
        top = list(unpacked.iterdir())
        if len(top) == 1 and top[0].is_dir() and top[0].name not in ("bin", "usr", "sbin"):
            top[0].rename(tree)
            unpacked.rmdir()
        else:
            unpacked.rename(tree)
        libraries = await _libraries_needed(name, tree, cache, host)
        build = await _build(name, tree, cache, host, libraries)
        added = _described(name, build, libraries, origin, sha256, archive.stat().st_size)
        write_text(aside / RECORD_FILE, json.dumps(added.model_dump(mode="json"), indent=1))
    return added


async def add_image(name: str, image: Image, cache: Path, host: LocalHost, say: Say, origin: str = "") -> AddedServer:
    """Unpack an image of an OCI layout, find the server in it, and keep it by this name. Raises UserError as `add`.

    `origin` is where it came from; empty: the layout's folder.
    """
    async with _new_folder(name, cache) as aside:
        say(f"unpacking {len(image.layers)} layers of {origin or image.folder}")
        tree = aside / TREE
        await asyncio.to_thread(unpack_image, image, tree)
        build = await _build(name, tree, cache, host, (), image_loader(tree))
        digest = image.digest.partition(":")[2]
        added = _described(name, build, (), origin or str(image.folder), digest, image.size_bytes, image=True)
        write_text(aside / RECORD_FILE, json.dumps(added.model_dump(mode="json"), indent=1))
    return added


def image_loader(tree: Path) -> tuple[str, ...]:
    """The image's dynamic loader with its library path; empty where it has none (its program must then be static)."""
    loader = first_existing(tree, *(f"{folder}/ld-linux-*.so.[0-9]" for folder in LIBRARY_FOLDERS))
    if loader is None:
        return ()
    folders = [path for pattern in LIBRARY_FOLDERS for path in sorted(tree.glob(pattern)) if path.is_dir()]
    return (str(loader), "--library-path", ":".join(map(str, folders)))


def remove(name: str, cache: Path) -> None:
    """Remove a server that was added. It is gone at once; its files are deleted after that."""
    folder = added_folder(cache, name)
    aside = folder.with_name(f".{folder.name}.removed")
    remove_tree(aside)
    folder.rename(aside)
    remove_tree(aside)


def _wanted(member: str) -> str | None:
    parts = member.strip("/").split("/")
    return None if member in ("", ".") or set(parts[:3]) & set(NOT_NEEDED) else member


async def _libraries_needed(name: str, tree: Path, cache: Path, host: LocalHost) -> tuple[str, ...]:
    """None, or LIBRARIES where the program does not start without. Raises UserError if it does not start with them."""
    try:
        await _build(name, tree, cache, host, ())
    except UserError as error:
        if not _MISSING_LIBRARY.search(error.message) or shutil.which("apt-get") is None:
            raise
        return LIBRARIES
    return ()


async def _build(
    name: str, tree: Path, cache: Path, host: LocalHost, libraries: Sequence[str], loader: tuple[str, ...] = ()
) -> ServerBuild:
    environment, packages = {}, {}
    if libraries:
        unpacked = await DebianPackages(cache, host).get(libraries)
        environment, packages = unpacked.environment, unpacked.versions
    try:
        return await find_build(name, tree, host, environment, packages, loader)
    except UserError as error:
        found = _MISSING_LIBRARY.search(error.message)
        hint = f"install the package with {found[1]}" if found else "is it the server's archive for this platform?"
        raise UserError(
            error.message.replace(f"{tree}/", ""),
            error.hint or f"{hint}; this host is {platform.machine()}, glibc {platform.libc_ver()[1] or 'unknown'}",
        ) from error


def _described(
    name: str,
    build: ServerBuild,
    libraries: tuple[str, ...],
    origin: str,
    sha256: str,
    size_bytes: int,
    image: bool = False,
) -> AddedServer:
    """The build as described by the program's version and its list of options."""
    version, options = build.version, build.variables
    first_by_mmap = (10, 5, 0) if version.flavour == "mariadb" else (8, 0, 0)
    needed = build.program.read_bytes()
    allocator = next((one for one in ("jemalloc", "tcmalloc") if f"lib{one}".encode() in needed), "glibc")
    return AddedServer(
        name=name,
        archive=origin,
        sha256=sha256,
        size_bytes=size_bytes,
        version=version.text,
        title=version.name,
        image=image,
        libraries=libraries,
        memcached=(build.plugins / "libmemcached.so").exists(),
        compression=("zlib", "zstd") if "protocol_compression_algorithms" in options else ("zlib",),
        huge_pages="mmap" if version.number >= first_by_mmap else "shmget",
        allocator=allocator,
    )


def is_image(name: str) -> bool:
    """Whether a server's name is an image's."""
    return name.startswith(PREFIX)


def how_fetched(name: str) -> str:
    """What will be fetched of a named image, from where, and how."""
    reference = name.removeprefix(PREFIX)
    registry = reference.partition("/")[0]
    return (
        f"{reference} will be fetched from the registry {registry} and kept in the cache, by "
        f"{' '.join(copy_command(reference, 'FOLDER'))}"
    )


async def add_pulled(
    name: str, reference: str, cache: Path, host: LocalHost, say: Say, check: Callable[[Image], None]
) -> AddedServer:
    """Copy an image, `check` it, and keep its server by this name. Raises UserError and HostError."""
    check_reference(reference)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".image-") as folder:
        image = await pull(reference, Path(folder) / "layout", cache, host, say)
        check(image)
        return await add_image(name, image, cache, host, say, reference)


async def add_named(name: str, cache: Path, host: LocalHost, say: Say) -> AddedServer:
    """The server that an experiment names by its image."""
    reference = name.removeprefix(PREFIX)
    return await add_pulled(
        name, reference, cache, host, say, lambda image: say(f"{reference} is {image.digest} now, and stays cached")
    )
