from __future__ import annotations

import json
from pathlib import Path

import pytest

from mydyno.errors import ArchiveError
from mydyno.hosts.local import LocalHost
from mydyno.packages.debian import DebianPackages
from mydyno.packages.debian_release import DebianRelease
from mydyno.packages.progress import silent

FAKE_APT = """\
#!/bin/sh
echo "$*" >> {log}
case "$*" in
*" update") {update} ;;
*) echo "E: Unable to locate package sysbench"; exit 100 ;;
esac
"""


def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update: str) -> tuple[DebianPackages, Path]:
    """Packages of an empty cache by an apt-get that knows none and updates so; the log of its calls."""
    log = tmp_path / "calls"
    program = tmp_path / "bin" / "apt-get"
    program.parent.mkdir()
    program.write_text(FAKE_APT.format(log=log, update=update))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return DebianPackages(tmp_path / "cache", LocalHost("apt", None)), log


async def test_lists_that_cannot_be_had_do_not_hide_the_machines_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apt, log = packages(tmp_path, monkeypatch, "exit 100")
    for _ in range(2):
        with pytest.raises(ArchiveError, match=r"apt does not know sysbench.*Unable to locate"):
            await apt.get(["sysbench"])
    calls = log.read_text().splitlines()
    assert ["Dir::State::Lists" in call for call in calls] == [False, True, False] * 2, calls
    assert all("Acquire::Retries=2" in call for call in calls), "apt asks three times, with pauses"
    assert not (tmp_path / "cache" / "debian" / "apt").exists()


async def test_lists_of_our_own_are_used_once_they_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = tmp_path / "cache" / "debian" / "apt" / "lists"
    apt, log = packages(tmp_path, monkeypatch, f"touch {lists}/mirror_Packages.lz4")
    with pytest.raises(ArchiveError, match="apt does not know sysbench"):
        await apt.get(["sysbench"])
    assert ["Dir::State::Lists" in call for call in log.read_text().splitlines()] == [False, True, True]


FAKE_RELEASE_APT = """\
#!/bin/sh
for word in "$@"; do case "$word" in
Dir::State::Lists=*) lists=${word#*=} ;;
Dir::Cache=*) archives=${word#*=}/archives ;;
Dir::Cache::archives=*) archives=${word#*=} ;;
esac; done
case "$*" in
*indextargets*) echo "http://mirror/debian|bookworm|main|Debian" ;;
*update*) touch $lists/x_Packages ;;
*--print-uris*) for name in libc6_2.43 server_2; do
    test -e $archives/${name}_amd64.deb || echo "'http://mirror/$name' ${name}_amd64.deb 10 SHA256:0"; done ;;
*--download-only*) for name in libc6_2.43 server_2; do echo new > $archives/${name}_amd64.deb; done ;;
esac
"""
FAKE_DPKG_DEB = """\
#!/bin/sh
mkdir -p "$3" && touch "$3/$(basename $2)"
"""


async def test_what_an_older_interrupted_download_left_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("apt-get", FAKE_RELEASE_APT), ("dpkg-deb", FAKE_DPKG_DEB)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    archives = tmp_path / "debian-releases" / "unstable" / "apt" / "cache" / "archives"
    archives.mkdir(parents=True)
    for name in ("libc6_2.43", "server_1"):  # of the same day and of another, and the study was killed both times
        (archives / f"{name}_amd64.deb").write_text("kept")
    found = await DebianRelease("unstable", tmp_path, LocalHost("apt", None), silent).get(["server"])
    assert found.versions == {"libc6": "2.43", "server": "2"}
    assert sorted(path.name for path in found.root.iterdir()) == ["libc6_2.43_amd64.deb", "server_2_amd64.deb"]
    assert not archives.exists()
    manifest = json.loads((found.root.parent / "packages.json").read_text())
    assert all(len(part["sha256"]) == 64 for part in manifest.values())


async def test_a_folder_of_packages_without_its_list_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    fetch = '#!/bin/sh\ncase "$*" in *download*) echo x > server_2_amd64.deb ;; esac\n'
    for name, text in (("apt-get", fetch), ("dpkg-deb", FAKE_DPKG_DEB)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    half = tmp_path / "debian" / "server"
    half.mkdir(parents=True)
    (half / "half").touch()
    apt = DebianPackages(tmp_path, LocalHost("apt", None))
    assert apt.present(["server"]) is None
    found = await apt.get(["server"])
    assert [path.name for path in found.root.iterdir()] == ["server_2_amd64.deb"]
    assert found.versions == {"server": "2"}
    assert apt.present(["server"]) == found
    assert sorted(path.name for path in half.parent.iterdir()) == [".server.lock", "server", "server.json"]
