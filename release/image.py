"""The folder that a container image is built from: Containerfile, requirements.lock, wheels of all packages."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from release.source import Source, run

PYTHON = "3.11"
"""Python version of the image's distribution."""
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64",
             "manylinux_2_5_x86_64", "manylinux1_x86_64")  # fmt: skip


def write_context(source: Source, out: Path) -> Path:
    """The folder `image` beside the other files of a release. Wheels are checked against the hashes in the lock."""
    folder = out / "image"
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    shutil.copy(source.folder / "release/Containerfile", folder)
    shutil.copy(source.folder / "requirements.lock", folder)
    for wheel in out.glob("*.whl"):
        shutil.copy(wheel, wheels)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
               "--only-binary", ":all:", "--python-version", PYTHON, "--implementation", "cp",
               *(f"--platform={name}" for name in PLATFORMS), "--dest", str(wheels),
               "--requirement", "requirements.lock"]  # fmt: skip
    run(command, source.folder, source.plain_environment())
    return folder
