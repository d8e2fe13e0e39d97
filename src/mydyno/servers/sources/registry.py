"""Servers from images of a registry: those of `mydyno servers add --image`, and an arm's `server = "image:…"`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from mydyno.hosts.local import LocalHost
from mydyno.packages.images import check_reference, copy_command, pull
from mydyno.packages.oci_layout import Image
from mydyno.packages.progress import Say
from mydyno.servers.sources.archive import AddedServer, add_image

PREFIX = "image:"
"""Of the name of a server that an experiment names by its image; the cache has it by the whole name."""


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
