"""A server as its vendor ships it, a tar archive: unpacked once into the cache, known by its checksum."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mydyno.errors import UserError
from mydyno.files.atomic import made_once, sha256_of
from mydyno.packages.tar_archive import extract


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
