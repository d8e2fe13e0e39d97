from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mydyno.errors import ArchiveError, UserError
from mydyno.hosts.local import LocalHost
from mydyno.packages.debian import DebianPackages, DebianRelease
from mydyno.packages.progress import silent
from mydyno.packages.tar_archive import extract_packages
from tests.support.oci import zstd
from tests.unit.packages.test_tar_archive import FILE, FOLDER, HARD, LINK, Entry, packed

COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "": lambda tar: tar,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd.compress,
}


def debian_package(path: Path, *files: Entry, compression: str = ".xz", mode: int = 0o644) -> Path:
    """A package of these files, which is an ar archive of three members (deb(5))."""
    tar = packed(path.with_suffix(".tar"), *files, mode=mode)
    data = COMPRESSED[compression](tar.read_bytes())
    tar.unlink()
    members = ("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), (f"data.tar{compression}", data)
    path.write_bytes(
        b"!<arch>\n"
        + b"".join(
            f"{name:<16}0           0     0     100644  {len(content):<10}`\n".encode()
            + content
            + b"\n"[: len(content) % 2]
            for name, content in members
        )
    )
    return path


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
*--download-only*) for name in libc6_2.43 server_2; do cp PACKAGES/$name.deb $archives/${name}_amd64.deb; done ;;
esac
"""


async def test_what_an_older_interrupted_download_left_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("libc6_2.43", "server_2"):
        debian_package(tmp_path / f"{name}.deb", (f"./{name}", FILE, "new"))
    (programs / "apt-get").write_text(FAKE_RELEASE_APT.replace("PACKAGES", str(tmp_path)))
    (programs / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    archives = tmp_path / "debian-releases" / "unstable" / "apt" / "cache" / "archives"
    archives.mkdir(parents=True)
    for name in ("libc6_2.43", "server_1"):  # of the same day and of another, and the study was killed both times
        (archives / f"{name}_amd64.deb").write_text("kept")
    found = await DebianRelease("unstable", tmp_path, LocalHost("apt", None), silent).get(["server"])
    assert found.versions == {"libc6": "2.43", "server": "2"}
    assert sorted(path.name for path in found.root.iterdir()) == ["libc6_2.43", "server_2"]
    assert not archives.exists()
    manifest = json.loads((found.root.parent / "packages.json").read_text())
    assert all(len(part["sha256"]) == 64 for part in manifest.values())


async def test_a_folder_of_packages_without_its_list_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    package = debian_package(tmp_path / "made.deb", ("./program", FILE, "new"))
    (programs / "apt-get").write_text(f'#!/bin/sh\ncase "$*" in *download*) cp {package} server_2_amd64.deb ;; esac\n')
    (programs / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    half = tmp_path / "debian" / "server"
    half.mkdir(parents=True)
    (half / "half").touch()
    apt = DebianPackages(tmp_path, LocalHost("apt", None))
    assert apt.present(["server"]) is None
    found = await apt.get(["server"])
    assert [path.name for path in found.root.iterdir()] == ["program"]
    assert found.versions == {"server": "2"}
    assert apt.present(["server"]) == found
    assert sorted(path.name for path in half.parent.iterdir()) == [".server.lock", "server", "server.json"]


@pytest.mark.parametrize("compression", COMPRESSED)
def test_packages_are_unpacked_over_each_other(tmp_path: Path, compression: str) -> None:
    first = debian_package(
        tmp_path / "a.deb",
        ("./", FOLDER, b""), ("./lib", LINK, "usr/lib"), ("./usr/lib/one.so", FILE, b"1" * 70_000),
        compression=compression,
    )  # fmt: skip
    second = debian_package(
        tmp_path / "b.deb",
        ("./lib/", FOLDER, b""), ("./lib/two.so", FILE, "2"), ("./lib/also.so", HARD, "./lib/two.so"),
        ("./usr/lib/two.so.1", LINK, "two.so"), compression=compression,
    )  # fmt: skip
    root = tmp_path / "root"
    extract_packages([first, second], root)
    assert sorted(path.name for path in (root / "usr/lib").iterdir()) == ["also.so", "one.so", "two.so", "two.so.1"]
    assert (root / "lib/one.so").read_bytes() == b"1" * 70_000
    assert (root / "usr/lib/two.so.1").read_text() == "2"


def test_a_package_of_dpkg_debs_own_is_unpacked_as_it_was(tmp_path: Path) -> None:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not on PATH: packages made by this test's own code only")
    source = tmp_path / "source"
    (source / "usr/bin").mkdir(parents=True)
    (source / "DEBIAN").mkdir()
    (source / "DEBIAN/control").write_text("Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n")
    (source / "usr/bin/program").write_text("#!/bin/sh\n")
    (source / "usr/bin/program").chmod(0o755)
    (source / "usr/bin/other").symlink_to("program")
    subprocess.run(["dpkg-deb", "--build", source, tmp_path / "x.deb"], check=True, capture_output=True)
    extract_packages([tmp_path / "x.deb"], tmp_path / "root")
    assert sorted(str(path.relative_to(tmp_path / "root")) for path in (tmp_path / "root").rglob("*")) == [
        "usr", "usr/bin", "usr/bin/other", "usr/bin/program",
    ]  # fmt: skip
    assert os.access(tmp_path / "root/usr/bin/other", os.X_OK)


def test_a_package_takes_neither_rights_nor_places_outside_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    files: list[Entry] = [
        ("./usr/bin/su", FILE, "x"),
        ("./usr/ssl", LINK, "/etc/ssl"),
        ("./usr/up", LINK, "../../victim"),
        ("./usr/far", LINK, "ssl/certs"),
    ]
    extract_packages([debian_package(tmp_path / "a.deb", *files, mode=0o6755)], tmp_path / "root")
    assert [path.name for path in (tmp_path / "root/usr").iterdir()] == ["bin"], "links that lead out are left out"
    made = (tmp_path / "root/usr/bin/su").stat()
    assert (stat.S_IMODE(made.st_mode), made.st_uid, made.st_gid) == (0o755, os.getuid(), os.getgid())
    for hostile, words in (
        (("../victim", FILE, "theirs"), "leads out of its folder"),
        (("./usr/up/x", FILE, "theirs"), "leads out of its folder by a link"),
        (("./dev/sda", b"4", ""), "is a special file"),
    ):
        package = debian_package(tmp_path / "b.deb", *files, hostile)
        with pytest.raises(UserError, match=words):
            extract_packages([package], tmp_path / "root2")
    assert (tmp_path / "victim").read_text() == "mine"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda whole: b"PK" + whole, "it is not a Debian package"),
        (lambda whole: whole[:60], "it has no data.tar"),
        (lambda whole: whole.replace(b"data.tar", b"date.tar"), "it has no data.tar"),
        (lambda whole: whole.replace(b"4         `", b"-60       `", 1), "it has no data.tar"),
        (lambda whole: whole[:-200], ""),
    ],
)
def test_a_damaged_package_is_named(tmp_path: Path, damage: Callable[[bytes], bytes], words: str) -> None:
    package = debian_package(tmp_path / "server_2.deb", ("./program", FILE, os.urandom(5000)))
    package.write_bytes(damage(package.read_bytes()))
    with pytest.raises(UserError, match=rf"server_2\.deb cannot be unpacked: .*{words}"):
        extract_packages([package], tmp_path / "root")
