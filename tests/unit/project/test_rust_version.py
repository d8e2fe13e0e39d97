"""The stated minimum of Rust is one version, and no package of the lock file needs a higher one."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib

from tests.support import ROOT


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_no_locked_package_needs_a_newer_rust_than_stated() -> None:
    stated = tomllib.loads((ROOT / "engine/Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    manifest = str(ROOT / "engine/Cargo.toml")
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", manifest]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    newer = [f"{one['name']} {one['version']}: {one['rust_version']}" for one in metadata["packages"]
             if one["rust_version"] and number(one["rust_version"])[:2] > number(stated)]  # fmt: skip
    assert newer == []
    for name in ("bootstrap.sh", "mydyno", "README.md", "CONTRIBUTING.md"):
        named = re.findall(r"(?:cargo|Rust)\D{0,14}(\d\.\d+)", (ROOT / name).read_text())
        assert set(named) == {stated}, name
