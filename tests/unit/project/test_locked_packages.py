"""Python packages are installed by version and hash alone, whoever installs them."""

from __future__ import annotations

import re

import pytest

from tests.support import ROOT

LOCKS = ("requirements.lock", "requirements-dev.lock", "release/requirements.lock")
INSTALLERS = ("bootstrap.sh", "release/Containerfile")


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_a_lock_file_has_a_version_and_a_hash(name: str) -> None:
    text = re.sub(r"\\\n\s*", "", (ROOT / name).read_text())
    packages = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert packages
    for package in packages:
        assert re.fullmatch(r"[\w.\[\]-]+==\S+( ; [^-]+)?(\s*--hash=sha256:[0-9a-f]{64})+", package), package


@pytest.mark.parametrize("name", INSTALLERS)
def test_pip_installs_lock_files_with_hashes_and_nothing_else_from_an_index(name: str) -> None:
    text = re.sub(r"\\\n\s*", "", (ROOT / name).read_text())
    commands = re.findall(r"pip install[^\n&]*", text)
    assert commands
    for command in commands:
        assert "--no-deps" in command, command
        assert "--require-hashes" in command or "--no-index" in command, command
        assert ("--require-hashes" in command) == bool(re.search(r" (-r|--requirement) ", command)), command
