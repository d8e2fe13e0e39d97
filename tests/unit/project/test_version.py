# mypy: disable-error-code="arg-type"
"""One version: release/version writes it into every file that must have it."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from mydyno import __version__
from tests.support import ROOT

CRATES = sorted(path.parent.name for path in (ROOT / "engine").glob("*/Cargo.toml"))
WITH_VERSION = ("src/mydyno/__init__.py", "pyproject.toml", "engine/Cargo.toml", "engine/Cargo.lock")


def versions(folder: Path) -> set[str]:
    """Every version of mydyno, of its engine and of the engine's crates that the files name."""
    init, project, workspace, lock = ((folder / name).read_text() for name in WITH_VERSION)
    packages = {package["name"]: package["version"] for package in tomllib.loads(lock)["package"]}
    return {
        *re.findall(r'^__version__ = "(.+)"$', init, re.MULTILINE),
        *re.findall(r"mydyno-engine==([\w.]+)", " ".join(tomllib.loads(project)["project"]["dependencies"])),
        tomllib.loads(workspace)["workspace"]["package"]["version"],
        *(packages[name] for name in CRATES),
    }


def copy_of_the_files(folder: Path) -> None:
    for name in WITH_VERSION:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text((ROOT / name).read_text())


def set_version(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [ROOT / "release/version", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_all_files_have_the_same_version() -> None:
    assert versions(ROOT) == {__version__}
    for manifest in (ROOT / "engine").glob("*/Cargo.toml"):
        assert tomllib.loads(manifest.read_text())["package"]["version"] == {"workspace": True}


def test_the_version_is_printed_and_set_everywhere(tmp_path: Path) -> None:
    copy_of_the_files(tmp_path)
    assert set_version(tmp_path).stdout == f"{__version__}\n"
    assert set_version(tmp_path, "12.3.4").returncode == 0
    assert versions(tmp_path) == {"12.3.4"}
    assert set_version(tmp_path).stdout == "12.3.4\n"


def test_what_is_no_version_is_refused(tmp_path: Path) -> None:
    copy_of_the_files(tmp_path)
    for wrong in ("1.2", "v1.2.3", "1.2.3-rc1"):
        done = set_version(tmp_path, wrong)
        assert (done.returncode, "is not a version such as 0.2.0" in done.stderr) == (2, True)
    assert versions(tmp_path) == {__version__}
