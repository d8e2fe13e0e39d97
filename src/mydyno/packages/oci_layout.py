"""Container images in an OCI image layout (a folder, as `skopeo copy docker://IMAGE oci:FOLDER:TAG` makes it).

Every blob is checked against its digest. Layers are applied in order: files of a later one replace those of an earlier
one, and whiteouts (`.wh.NAME`, `.wh..wh..opq`) remove them. Absolute links are made relative, since the tree is not the
root of a file system here. Source: OCI Image Format Specification 1.1, layer.md and image-layout.md.

An image of a registry is copied into such a layout by skopeo: the host's own, or Debian's package.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mydyno.errors import ArchiveError, HostError, UserError
from mydyno.files.tree import Tree
from mydyno.hosts.local import LocalHost
from mydyno.packages.debian import DebianPackages
from mydyno.packages.tar_archive import DamagedError, members

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Architectures as the kernel names them → as images do."""
INDEX_TYPES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
TAG = "org.opencontainers.image.ref.name"
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
MOST_JSON_BYTES = 4 << 20
NEEDED = ("usr", "lib", "lib32", "lib64", "bin", "sbin", "opt")
"""Top folders of an image that are unpacked: programs and libraries, no settings and no state."""
PULLED = "image"
TIMEOUT_S = 3600.0
_REFERENCE = re.compile(
    r"[a-z0-9][a-z0-9.-]*(?::\d+)?(?:/[a-z0-9._-]+)+(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?", re.ASCII
)
_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1)(:\d+)?/")


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's blob."""

    path: Path
    digest: str


@dataclass(frozen=True, slots=True)
class Image:
    """One image of a layout: the digest of its manifest, and its layers, the lowest first."""

    folder: Path
    digest: str
    layers: tuple[Layer, ...]
    size_bytes: int


def read_image(folder: Path, tag: str = "") -> Image:
    """The image for this machine; of several, the one with the tag. Raises UserError that says what is wrong."""
    if not (folder / "oci-layout").is_file() or not (folder / "index.json").is_file():
        raise UserError(
            f"{folder} is no OCI image layout: it has no oci-layout and index.json",
            "skopeo copy docker://IMAGE oci:FOLDER:TAG makes one",
        )
    entries = _list(_json(folder / "index.json"), "manifests", folder)
    tags = [str(_object(entry, "annotations").get(TAG, "")) for entry in entries]
    if tag:
        entries = [entry for entry, own in zip(entries, tags, strict=True) if own == tag]
    if len(entries) != 1:
        found = ", ".join(sorted(filter(None, tags))) or "none"
        what = f"no image {tag}" if tag and not entries else f"{len(entries)} images"
        raise UserError(f"{folder} has {what}", f"name one as FOLDER:TAG; tags: {found}")
    entry = entries[0]
    while entry.get("mediaType") in INDEX_TYPES:
        entry = _for_this_machine(_list(_json(_checked(folder, entry)), "manifests", folder), folder)
    manifest = _json(_checked(folder, entry))
    layers = tuple(Layer(_checked(folder, one), one["digest"]) for one in _list(manifest, "layers", folder))
    return Image(folder, str(entry["digest"]), layers, sum(layer.path.stat().st_size for layer in layers))


def unpack_image(image: Image, root: Path) -> int:
    """Apply the layers below `root`; returns how many files were written. Raises UserError, HostError."""
    count = 0
    with Tree(root, through_links=True) as tree:
        for layer in image.layers:
            try:
                count += _apply(layer, tree)
            except DamagedError as error:
                raise UserError(f"layer {layer.digest}: {error.message}") from error
            except UserError as error:
                raise UserError(f"layer {layer.digest} is not unpacked: {error.message}") from error
            except OSError as error:
                raise HostError(f"{image.folder} cannot be unpacked: {error.strerror or error}") from error
        if outgoing := tree.outgoing_links():
            raise UserError(f"{image.folder} is not unpacked: {outgoing[0]} is a link that leads outside")
    return count


def _apply(layer: Layer, tree: Tree) -> int:
    count = 0
    for member, content in members(layer.path):
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if not parts or parts[0] not in NEEDED:
            continue
        path = PurePosixPath(*parts)
        if path.name == OPAQUE:
            tree.empty(str(path.parent))
        elif path.name.startswith(WHITEOUT):
            tree.remove(f"{path.parent}/{_whited_out(path)}")
        elif member.isreg():
            tree.file(str(path), member.size, content, executable=bool(member.mode & 0o100))
            count += 1
        elif member.isdir():
            tree.folder(str(path))
        elif member.islnk():
            tree.hard_link(str(path), member.linkname.lstrip("/"))
        elif member.issym():
            absolute = member.linkname.startswith("/")
            tree.link(str(path), os.path.relpath(member.linkname, f"/{path.parent}") if absolute else member.linkname)
    return count


def _whited_out(path: PurePosixPath) -> str:
    name = path.name.removeprefix(WHITEOUT)
    if name in ("", "."):
        raise UserError(f"{path} removes nothing that has a name")
    return name


def _checked(folder: Path, entry: dict[str, Any]) -> Path:
    """The blob of a descriptor, its digest verified."""
    digest = str(entry.get("digest", ""))
    algorithm, _, expected = digest.partition(":")
    if algorithm != "sha256" or len(expected) != 64 or not expected.isalnum():
        raise UserError(f"{folder}: a digest that is not a SHA-256: {digest or 'none'}")
    path = folder / "blobs" / algorithm / expected
    if not path.is_file():
        raise UserError(f"{folder} lacks the blob {digest}", "is it copied completely?")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise UserError(f"{path} has SHA-256 {found}, not what its name says; nothing was unpacked")
    return path


def _for_this_machine(entries: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    wanted = MACHINES.get(platform.machine(), platform.machine())
    platforms = [_object(entry, "platform") for entry in entries]
    for entry, of in zip(entries, platforms, strict=True):
        if (of.get("os"), of.get("architecture")) == ("linux", wanted):
            return entry
    found = ", ".join(f"{of.get('os')}/{of.get('architecture')}" for of in platforms)
    raise UserError(f"{folder} has no image for linux/{wanted}", f"it has {found or 'none'}")


def _json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MOST_JSON_BYTES:
            raise UserError(f"{path} is too large for a manifest")
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: {error}") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} holds no JSON object")
    return found


def _list(of: dict[str, Any], key: str, folder: Path) -> list[dict[str, Any]]:
    found = of.get(key)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise UserError(f"{folder}: a manifest without {key}")
    return found


def _object(of: dict[str, Any], key: str) -> dict[str, Any]:
    found = of.get(key)
    return found if isinstance(found, dict) else {}


def check_reference(reference: str) -> None:
    """Raises UserError for what is no image of a registry."""
    if not _REFERENCE.fullmatch(reference):
        raise UserError(
            f"{reference}: not an image", "REGISTRY/NAME:TAG, as in docker.io/library/mysql:8.4, or @sha256:…"
        )


def copy_command(reference: str, folder: Path | str, skopeo: str = "skopeo") -> Sequence[str]:
    """What copies an image into a layout in `folder`. A registry on loopback may have no TLS."""
    plain = ["--src-tls-verify=false"] if _LOOPBACK.match(reference) else []
    return [skopeo, "--insecure-policy", "copy", "--quiet", *plain, f"docker://{reference}", f"oci:{folder}:{PULLED}"]


async def pull(reference: str, folder: Path, cache: Path, host: LocalHost, say: Callable[[str], None]) -> Image:
    """The image in a layout in `folder`. Raises HostError with skopeo's words."""
    skopeo, environment = shutil.which("skopeo"), None
    if skopeo is None:
        packages = await DebianPackages(cache, host).get(["skopeo"])
        skopeo, environment = str(packages.find("usr/bin/skopeo")), packages.environment
    say(f"copying {reference}")
    command = copy_command(reference, folder, skopeo)
    done = await host.run(command, environment=environment, timeout_s=TIMEOUT_S)
    if done.exit_code:
        raise ArchiveError(f"{reference} cannot be copied: {' '.join(done.output.split())[-500:]}")
    return read_image(folder, PULLED)
