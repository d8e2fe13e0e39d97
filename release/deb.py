"""The .deb of the engine: the programs of its wheel, with manual pages, made by dpkg-deb."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from release.source import ReleaseError, Source, run

PACKAGE = "mydyno-engine"
DOCUMENTS = f"usr/share/doc/{PACKAGE}"
SBOM = "sbom.cdx.json"


def build_deb(source: Source, wheel: Path, out: Path, effort: int = 9) -> Path:
    """The same wheel gives the same file, with the same version of xz. `effort`: of the compression, 0 to 9.

    Raises ReleaseError.
    """
    if shutil.which("dpkg-deb") is None:
        raise ReleaseError("dpkg-deb is not on PATH: the .deb is made on Debian or Ubuntu")
    deb = out / f"{PACKAGE}_{source.version}_amd64.deb"
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, PACKAGE)
        _unpack_wheel(wheel, root)
        _add_documents(source, root)
        _add_control(source, wheel, root)
        for path in (root, *root.rglob("*")):
            path.chmod(0o755 if path.is_dir() or path.parent == root / "usr/bin" else 0o644)
            os.utime(path, (source.epoch_s, source.epoch_s))
        # One thread: several cut the data elsewhere.
        command = [
            "dpkg-deb",
            "--root-owner-group",
            "-Zxz",
            f"-z{effort}",
            "--threads-max=1",
            "--build",
            str(root),
            str(deb),
        ]
        run(command, Path(scratch), source.plain_environment())
    return deb


def _unpack_wheel(wheel: Path, root: Path) -> None:
    programs = root / "usr/bin"
    documents = root / DOCUMENTS
    programs.mkdir(parents=True)
    documents.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"[^/]+\.data/scripts/\w+", name):
                (programs / Path(name).name).write_bytes(archive.read(name))
            elif re.fullmatch(r"[^/]+\.dist-info/sboms/[^/]+\.json", name):
                (documents / SBOM).write_bytes(archive.read(name))


def _add_documents(source: Source, root: Path) -> None:
    own = source.folder / "release/debian"
    date = format_datetime(datetime.fromtimestamp(source.epoch_s, UTC))
    maintainer = re.findall(r"^Maintainer: (.+)$", (own / "control.in").read_text(), re.MULTILINE)[0]
    entry = f"  * Version {source.version}, commit {source.commit}."
    text = f"{PACKAGE} ({source.version}) stable; urgency=medium\n\n{entry}\n\n -- {maintainer}  {date}\n"
    _write_compressed(root / DOCUMENTS / "changelog.gz", text)
    shutil.copy(own / "copyright", root / DOCUMENTS / "copyright")
    manual = root / "usr/share/man/man1"
    manual.mkdir(parents=True)
    for page in sorted(own.glob("*.1")):
        _write_compressed(manual / f"{page.name}.gz", page.read_text())


def _write_compressed(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _add_control(source: Source, wheel: Path, root: Path) -> None:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    control = (source.folder / "release/debian/control.in").read_text()
    text = control.format(
        version=source.version,
        installed_kib=sum(-(-path.stat().st_size // 1024) for path in files),
        glibc=_lowest_glibc(wheel),
    )
    folder = root / "DEBIAN"
    folder.mkdir()
    (folder / "control").write_text(text)
    sums = [
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(root)}\n"
        for path in files
    ]
    (folder / "md5sums").write_text("".join(sums))


def _lowest_glibc(wheel: Path) -> str:
    """The version of glibc that maturin found the programs to need, from the wheel's tag: "2.28"."""
    found = re.search(r"manylinux_(\d+)_(\d+)_", wheel.name)
    if found is None:
        raise ReleaseError(f"{wheel.name} has no tag manylinux_X_Y")
    return ".".join(found.groups())


def files_of_deb(deb: Path) -> list[str]:
    """One line for each file: mode, owner and path, without sizes and dates."""
    done = subprocess.run(["dpkg-deb", "--contents", str(deb)], capture_output=True, text=True, check=True)
    lines = (line.split(maxsplit=5) for line in done.stdout.splitlines())
    return [f"{mode} {owner} {path}" for mode, owner, _, _, _, path in lines]
