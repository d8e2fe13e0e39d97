"""Software bills of materials (CycloneDX): of the Python packages in requirements.lock, and of the engine's crates."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from release.source import ReleaseError, Source, run

IN_WHEEL = re.compile(r"[^/]+\.dist-info/sboms/[^/]+\.json")
FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""Earliest date of a zip file; maturin writes it too."""


def write_python_sbom(source: Source, out: Path) -> None:
    """From requirements.lock: exact versions, with the hashes of the files that pip accepts."""
    path = out / f"mydyno-{source.version}.cdx.json"
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "requirements.lock", "--output-reproducible",
               "--pyproject", "pyproject.toml", "--short-PURLs", "--output-file", str(path)]  # fmt: skip
    run(command, source.folder, source.plain_environment())


def write_engine_sbom(source: Source, wheel: Path, out: Path) -> None:
    """A copy of the one in the wheel, which lists the crates of Cargo.lock that the programs are built from."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(sbom_in(archive))
    (out / f"mydyno-engine-{source.version}.cdx.json").write_bytes(text)


def make_sbom_reproducible(source: Source, wheel: Path) -> None:
    """Rewrite the wheel: maturin's SBOM has a random number, the time, and paths of the host that built it."""
    with zipfile.ZipFile(wheel) as archive:
        infos = archive.infolist()
        files = {info.filename: archive.read(info) for info in infos}
        sbom = sbom_in(archive)
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    files[sbom] = _without_host(files[sbom], source)
    digest = base64.urlsafe_b64encode(hashlib.sha256(files[sbom]).digest()).rstrip(b"=").decode()
    line = f"{sbom},sha256={digest},{len(files[sbom])}"
    files[record] = re.sub(rf"^{re.escape(sbom)},.*$", line, files[record].decode(), flags=re.MULTILINE).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for info in infos:
            plain = zipfile.ZipInfo(info.filename, FIRST_DATE)
            plain.external_attr = info.external_attr
            archive.writestr(plain, files[info.filename], zipfile.ZIP_DEFLATED, 9)


def sbom_in(archive: zipfile.ZipFile) -> str:
    """Its name in the wheel. Raises ReleaseError if there is not exactly one."""
    names = [name for name in archive.namelist() if IN_WHEEL.fullmatch(name)]
    if len(names) != 1:
        raise ReleaseError(f"{archive.filename} has {len(names)} SBOMs, not one: {', '.join(names)}")
    return names[0]


def _without_host(text: bytes, source: Source) -> bytes:
    document = json.loads(text.replace(f"file://{source.folder}".encode(), b"file:///mydyno"))
    document.pop("serialNumber", None)
    document["metadata"]["timestamp"] = datetime.fromtimestamp(source.epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
