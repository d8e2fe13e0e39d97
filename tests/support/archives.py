"""The files of wheels and sdists, as golden files list them."""

from __future__ import annotations

import re
import tarfile
import zipfile
from pathlib import Path

from mydyno import __version__
from tests.support import ROOT

EPOCH_S = 1_700_000_000
"""In the place of the commit's time: of every file in every archive."""


def members(archive: Path) -> list[str]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return sorted(wheel.namelist())
    with tarfile.open(archive) as sdist:
        return sorted(member.name for member in sdist.getmembers() if member.isfile())


def collapsed(names: list[str], folder: Path, prefix: str) -> str:
    """One name a line, without the version. The files of a source folder, which must all be there, are one line."""
    own = {
        f"{prefix}{path.relative_to(folder)}"
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "target" not in path.relative_to(folder).parts
    }
    assert own <= set(names), sorted(own - set(names))
    rest = [f"{prefix}** (all files of {folder.relative_to(ROOT)})", *(name for name in names if name not in own)]
    text = "\n".join(sorted(rest)).replace(__version__, "VERSION")
    return re.sub(r"manylinux_\d+_\d+", "manylinux_X_Y", text) + "\n"
