"""OCI image layouts made of files that a test names."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Content = bytes | str
"""A file's bytes, or the target of a symbolic link."""
LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def layer(files: Mapping[str, Content]) -> bytes:
    """One layer, not compressed."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                archive.addfile(member)
                continue
            member.size, member.mode = len(content), 0o755
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def blob(folder: Path, content: bytes, media_type: str) -> dict[str, Any]:
    """Store a blob; returns its descriptor."""
    digest = hashlib.sha256(content).hexdigest()
    path = folder / "blobs/sha256" / digest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def image(folder: Path, layers: Sequence[bytes], packing: str = "gzip") -> dict[str, Any]:
    """Store an image of these layers; returns its manifest's descriptor."""
    packed = {
        "": lambda data: data,
        "gzip": gzip.compress,
        "zstd": zstd.compress,
    }[packing]
    media_type = f"{LAYER}+{packing}" if packing else LAYER
    entries = [blob(folder, packed(data), media_type) for data in layers]
    plain = [f"sha256:{hashlib.sha256(data).hexdigest()}" for data in layers]
    about = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": plain}}
    config = blob(folder, json.dumps(about).encode(), CONFIG)
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": entries}
    return blob(folder, json.dumps(manifest).encode(), MANIFEST)


def layout(folder: Path, entries: Sequence[dict[str, Any]]) -> Path:
    """Finish a layout with these images."""
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": list(entries)}))
    return folder


def tagged(entry: dict[str, Any], tag: str) -> dict[str, Any]:
    """The descriptor with a tag."""
    return {**entry, "annotations": {"org.opencontainers.image.ref.name": tag}}
