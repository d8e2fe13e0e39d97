"""mydyno is pushed to a host over SSH: what is sent, what is checked before, and what a failure leaves."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from mydyno.errors import HostError
from mydyno.fleet import parts
from mydyno.fleet.installation import (
    FOLDER,
    START,
    FolderArchives,
    Installation,
    ensure_installed,
    prepare,
    push_folders,
    remove,
    state_of,
)
from mydyno.fleet.parts import (
    Part,
    archives_folder,
    glibc_of_programs,
    packages_part,
    program_part,
    remove_old_archives,
)
from mydyno.hosts.paths import ENGINE_PROGRAMS
from mydyno.hosts.remote.ssh import SshHost
from tests.support import ROOT
from tests.support.patience import HANG_S
from tests.support.small_installation import small_installation
from tests.support.ssh_server import SshServer, printing, ssh_server, without

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path / "ssh") as started:
        yield started


@pytest_asyncio.fixture
async def host(server: SshServer) -> AsyncIterator[SshHost]:
    async with await SshHost.connect(server.address, server.login) as connected:
        yield connected


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    with small_installation(tmp_path, monkeypatch) as made:
        yield made


def test_the_required_packages_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [re.match(r"[\w.-]+", one)[0] for one in project["dependencies"]]  # type: ignore[index]
    names.remove("mydyno-engine")
    only_here = ("prometheus-client", "sse-starlette", "starlette", "uvicorn")  # of the pages of `mydyno serve`
    assert names == sorted((*parts.REQUIRED, *only_here))


def test_packages_are_those_required_and_what_they_need() -> None:
    found = packages_part()
    names = {name.partition("/")[0] for name in found.files}
    assert {"numpy", "scipy", "asyncssh", "cryptography", "pydantic_core"} <= names
    assert not {"pytest", "_pytest", "mypy", "ruff", "pip"} & names
    assert found == packages_part(), "the key is the same each time"
    assert (2, 17) <= found.glibc <= (2, 40)


def test_the_glibc_of_a_program_is_read_from_its_symbols() -> None:
    assert (2, 2) < glibc_of_programs([Path("/usr/bin/ssh")]) <= (2, 60)
    assert glibc_of_programs([Path(__file__)]) == (0, 0)


async def test_it_is_installed_once_and_starts(host: SshHost, wanted: Installation, tmp_path: Path) -> None:
    with pytest.raises(HostError, match="has no mydyno") as caught:
        await ensure_installed(host)
    assert caught.value.hint == f"mydyno hosts prepare --hosts {host.name}"
    said: list[str] = []
    assert await prepare(host, wanted, tmp_path / "cache", said.append)
    assert [line.partition(":")[0] for line in said] == ["copying Python packages", f"copying {wanted.program.title}"]
    start = await ensure_installed(host)
    assert start == f"{await host.home()}/{FOLDER}/{wanted.key}/{START}"
    done = await host.run([start, "--version"])
    assert done.output == f"{wanted.program.title}\n"
    assert not await prepare(host, wanted, tmp_path / "cache", said.append)
    assert len(said) == 2
    assert all(not path.name.startswith(".") for path in (await folder_of(host)).iterdir())
    other = replace(wanted, program=replace(wanted.program, name="0123456789abcdef"))
    said.clear()
    assert await prepare(host, other, tmp_path / "cache", said.append)
    assert len(said) == 1, "the Python packages are there already"
    assert (await state_of(host)).versions == sorted([wanted.key, other.key])


async def folder_of(host: SshHost) -> Path:
    return Path(await host.home()) / FOLDER


async def test_another_version_is_named(host: SshHost, wanted: Installation) -> None:
    (await folder_of(host) / "0123456789abcdef").mkdir(parents=True)
    with pytest.raises(HostError, match=f"another version of mydyno than the one here .{wanted.key}"):
        await ensure_installed(host)


async def pushed(host: SshHost, cache: Path) -> list[str]:
    async with FolderArchives(cache) as archives:
        found = await push_folders(host, [cache / "debian" / "tool+x"], archives, lambda _: None)
    assert not [path for path in archives_folder(cache).iterdir() if "tool+x" in path.name]
    return found


async def test_a_server_that_was_added_replaces_another_of_its_name(
    host: SshHost, server: SshServer, tmp_path: Path
) -> None:
    (server.home / FOLDER).mkdir(parents=True)
    folder = tmp_path / "cache" / "servers" / "added" / "own"
    (folder / "tree").mkdir(parents=True)
    for sha256, copied in (("one", True), ("one", False), ("two", True)):
        (folder / "added.json").write_text(f'{{"sha256": "{sha256}"}}')
        async with FolderArchives(tmp_path / "cache") as archives:
            found = await push_folders(host, [folder], archives, lambda _: None)
        assert found == (["servers/added/own"] if copied else [])
        assert sha256 in (server.home / ".cache/mydyno/servers/added/own/added.json").read_text()


async def test_remove_takes_everything_away(
    host: SshHost, server: SshServer, wanted: Installation, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    await prepare(host, wanted, cache, lambda _: None)
    (cache / "debian" / "tool+x" / "usr").mkdir(parents=True)
    (cache / "debian" / "tool+x" / "usr" / "link").symlink_to("nowhere")
    (cache / "debian" / "tool+x.json").write_text("{}")
    assert await pushed(host, cache) == ["debian/tool+x"]
    assert await pushed(host, cache) == []
    there = server.home / ".cache/mydyno/debian"
    assert sorted(path.name for path in there.iterdir()) == ["tool+x", "tool+x.json"]
    assert (there / "tool+x/usr/link").is_symlink()
    (cache / "debian" / "tool+x.json").write_text('{"a": 1}')
    assert await pushed(host, cache) == ["debian/tool+x"]
    assert (there / "tool+x.json").read_text() == '{"a": 1}'
    start = await ensure_installed(host)
    running = await host.start(["env", f"MYDYNO_ENGINE={Path(start).parent}/engine", "sleep", "60"])
    await host.run([start, "--version"])
    with pytest.raises(HostError, match="mydyno is running on it"):
        await remove(host, lambda _: None)
    await running.kill()
    assert await remove(host, lambda _: None)
    assert list(server.home.rglob("*")) == []
    assert not await remove(host, lambda _: None)


async def test_what_others_made_in_the_cache_stays(host: SshHost, server: SshServer, wanted: Installation) -> None:
    own = server.home / ".cache/mydyno/debian/own"
    own.mkdir(parents=True)
    (own / "file").write_text("x" * 9000)
    (server.home / FOLDER / "0123456789abcdef").mkdir(parents=True)
    script = server.home / FOLDER / "0123456789abcdef" / "mydyno"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    said: list[str] = []
    assert await remove(host, said.append)
    assert (own / "file").exists()
    assert not (server.home / FOLDER).exists()
    assert said[-1].startswith("not removed, because not pushed: ")


async def test_a_broken_archive_leaves_nothing(host: SshHost, wanted: Installation, tmp_path: Path) -> None:
    archives = archives_folder(tmp_path / "cache")
    archives.mkdir(parents=True)
    (archives / f"{wanted.packages.name}.tar.gz").write_bytes(b"\x1f\x8b broken")
    with pytest.raises(HostError, match=r"gzip|tar"):
        await prepare(host, wanted, tmp_path / "cache", lambda _: None)
    assert list((await folder_of(host)).iterdir()) == []


async def test_a_version_that_does_not_start_is_not_installed(
    host: SshHost, wanted: Installation, tmp_path: Path
) -> None:
    without_files = {name: path for name, path in wanted.program.files.items() if not name.endswith("errors.py")}
    broken = replace(wanted, program=replace(wanted.program, files=without_files))
    with pytest.raises(HostError, match="mydyno does not start there") as caught:
        await prepare(host, broken, tmp_path / "cache", lambda _: None)
    assert "No module named 'mydyno.errors'" in caught.value.message
    assert [path.name for path in (await folder_of(host)).iterdir()] == [wanted.packages.name]


async def refusal(host: SshHost, wanted: Installation, folder: Path) -> str:
    """Where the controller's Python cannot be copied."""
    with pytest.raises(HostError) as caught:
        await prepare(host, wanted, folder / "cache", lambda _: None, lambda: parts.python_part(Path("/usr")))
    assert list((folder / "ssh" / "remote-home").rglob("*")) == [], "nothing was sent"
    return str(caught.value)


async def test_a_host_that_cannot_is_refused_before_anything_is_sent(
    host: SshHost, server: SshServer, wanted: Installation, tmp_path: Path
) -> None:
    needs_new = replace(wanted, program=replace(wanted.program, glibc=(9, 1)))
    assert "needs 9.1" in await refusal(host, needs_new, tmp_path)
    printing(server.folder, "df", "header\n/dev/sda1 100 99 1 99% /home")
    assert "1.0 KiB free in the home directory" in await refusal(host, wanted, tmp_path)
    shutil.rmtree(server.folder / "tools")
    printing(server.folder, "uname", "riscv64")
    assert f"is riscv64, this host is {parts.machine()}" in await refusal(host, wanted, tmp_path)


async def test_a_host_without_python_is_refused_where_ours_cannot_be_copied(
    host: SshHost, server: SshServer, wanted: Installation, tmp_path: Path
) -> None:
    without(server.folder, "python", "pdb", "pydoc")
    assert (await state_of(host)).python == ""
    assert f"no Python {parts.python_tag()} on PATH" in await refusal(host, wanted, tmp_path)


async def test_a_host_without_util_linux_is_refused(host: SshHost, server: SshServer) -> None:
    without(server.folder, "setpriv")
    with pytest.raises(HostError, match="setpriv or setsid is not on PATH"):
        await host.run(["true"])
    process = await host.start(["true"])
    with pytest.raises(HostError, match="setpriv or setsid is not on PATH"):
        await process.wait(HANG_S)


def test_archives_of_other_versions_are_removed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    old, new = (Part(name, "x", {"a/b": tmp_path / "file"}, (0, 0)) for name in ("old", "new"))
    made = [part.archive(tmp_path / "hosts") for part in (old, new)]
    assert made[0] == old.archive(tmp_path / "hosts")
    remove_old_archives(tmp_path / "hosts", [new])
    assert [path.exists() for path in made] == [False, True]


def test_the_key_changes_with_the_engine(tmp_path: Path) -> None:
    keys = []
    for content in ("a", "b", "a"):
        for name in ENGINE_PROGRAMS:
            (tmp_path / name).write_text(content)
        keys.append(program_part(tmp_path, Part("packages-1", "x", {}, (0, 0))).name)
    assert keys[0] == keys[2] != keys[1]
    with pytest.raises(HostError, match="dynoload is not at"):
        program_part(tmp_path / "nowhere", Part("packages-1", "x", {}, (0, 0)))
