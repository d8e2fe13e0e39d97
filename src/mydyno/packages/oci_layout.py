"""Container images in an OCI image layout (a folder, as `skopeo copy docker://IMAGE oci:FOLDER:TAG` makes it).

Every blob is checked against its digest. Layers are applied in order: files of a later one replace those of an earlier
one, and whiteouts (`.wh.NAME`, `.wh..wh..opq`) remove them. Absolute links are made relative, since the tree is not the
root of a file system here. Source: OCI Image Format Specification 1.1, layer.md and image-layout.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mydyno.errors import UserError

if sys.version_info >= (3, 12):
    import tarfile
else:
    from backports import tarfile  # as in tar_archive.py

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Architectures as the kernel names them → as images do."""
INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
TAG = "org.opencontainers.image.ref.name"
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
MOST_JSON_BYTES = 4 << 20
NEEDED = ("usr", "lib", "lib32", "lib64", "bin", "sbin", "opt")
"""Top folders of an image that are unpacked: programs and libraries, no settings and no state."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's blob and how it is packed."""

    path: Path
    digest: str
    media_type: str


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
    tags = [str(entry.get("annotations", {}).get(TAG, "")) for entry in entries]
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
    layers = tuple(
        Layer(_checked(folder, one), one["digest"], str(one.get("mediaType", "")))
        for one in _list(manifest, "layers", folder)
    )
    return Image(folder, str(entry["digest"]), layers, sum(layer.path.stat().st_size for layer in layers))


def unpack_image(image: Image, root: Path) -> int:
    """Apply the layers below `root`; returns how many files were written. Raises UserError."""
    import pyarrow

    root.mkdir(parents=True, exist_ok=True)
    count = 0
    for layer in image.layers:
        try:
            with _opened(layer) as source:
                count += _apply(source, root)
        except tarfile.FilterError as error:
            raise UserError(f"layer {layer.digest} is not unpacked: {error}") from error
        except (tarfile.TarError, EOFError, pyarrow.ArrowException) as error:
            raise UserError(f"layer {layer.digest} cannot be unpacked: {error}") from error
    return count


def _apply(source: tarfile.TarFile, root: Path) -> int:
    count = 0
    for member in source:
        path = PurePosixPath(os.path.normpath(member.name.lstrip("/")))
        if path.parts[:1] not in {(name,) for name in NEEDED} or ".." in path.parts:
            if ".." in path.parts:
                raise UserError(f"{member.name} leads out of its folder; nothing was kept")
            continue
        parent = root / path.parent
        if not _inside(parent, root):
            raise UserError(f"{member.name} leads out of its folder by a link; nothing was kept")
        if path.name == OPAQUE:
            for old in list(parent.iterdir()) if parent.is_dir() else []:
                _remove(old)
            continue
        if path.name.startswith(WHITEOUT):
            _remove(parent / path.name.removeprefix(WHITEOUT))
            continue
        if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
            continue
        moved = member.replace(name=str(path), deep=False)
        if member.issym() and member.linkname.startswith("/"):
            target = member.linkname.lstrip("/")
            moved = moved.replace(linkname=os.path.relpath(target, path.parent), deep=False)
        elif member.islnk():
            moved = moved.replace(linkname=os.path.normpath(member.linkname.lstrip("/")), deep=False)
        at = root / path
        if (at.is_symlink() or at.exists()) and not (member.isdir() and at.is_dir()):
            _remove(at)
        source.extract(moved, root, filter="data")
        count += member.isfile()
    return count


def _inside(parent: Path, root: Path) -> bool:
    return Path(os.path.realpath(parent)).is_relative_to(os.path.realpath(root))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _opened(layer: Layer) -> Iterator[tarfile.TarFile]:
    if layer.media_type.endswith("zstd"):
        import pyarrow

        with (
            pyarrow.CompressedInputStream(str(layer.path), "zstd") as stream,
            tarfile.open(fileobj=stream, mode="r|") as source,
        ):
            yield source
    else:
        with tarfile.open(layer.path, "r:*") as source:
            yield source


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
    platforms = [entry.get("platform", {}) for entry in entries]
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
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} holds no JSON object")
    return found


def _list(of: dict[str, Any], key: str, folder: Path) -> list[dict[str, Any]]:
    found = of.get(key)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise UserError(f"{folder}: a manifest without {key}")
    return found
