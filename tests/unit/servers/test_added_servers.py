"""`mydyno servers add` and `remove`: hash, safe and atomic unpacking, recognition, and every mistake's words."""

from __future__ import annotations

import asyncio
import http.server
import io
import json
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from mydyno.hosts.lock import study_lock
from mydyno.packages.progress import download, silent
from tests.support.server_archive import fake_archive, sha256
from tests.unit.cli.test_command_line import mydyno

EXPERIMENT = """name = "x"
question = "Which is faster?"
server.name = "mysql-8.4"
[arms]
control = "old"
old = { server = "mysql-5.6" }
new = { server = "mysql-8.4" }
[[steps]]
workload = "oltp_read_only"
"""


@pytest.fixture
def archive(tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / "mysql-8.4.3-linux-glibc2.28-x86_64.tar.xz"
    return path, fake_archive(path, options="protocol-compression-algorithms zlib,zstd")


def left_over(tmp_path: Path) -> list[str]:
    """What lies in the folder of added servers, but for locks; and downloads in the cache."""
    folder = tmp_path / "cache/servers/added"
    found = [path.name for path in folder.iterdir() if not path.name.endswith(".lock")] if folder.exists() else []
    aside = [path.name for pattern in (".download-*", ".image-*") for path in (tmp_path / "cache").glob(pattern)]
    return sorted(found + aside)


@pytest.mark.parametrize(("ending", "top"), [("xz", "mysql-8.4.3/"), ("gz", ""), ("bz2", "./percona-8.4/")])
def test_an_archive_becomes_a_server_by_name(tmp_path: Path, ending: str, top: str) -> None:
    path = tmp_path / f"server.tar.{ending}"
    digest = fake_archive(path, top=top, options="protocol-compression-algorithms zlib,zstd")
    done = mydyno(tmp_path, "servers", "add", "mysql-8.4", "--archive", str(path), "--sha256", digest.upper())
    assert (done.returncode, done.stderr) == (0, f"unpacking server.tar.{ending}\n"), done.stderr
    assert done.stdout == f'mysql-8.4: MySQL 8.4.3 from {path.name}; in an experiment: server.name = "mysql-8.4"\n'
    tree = tmp_path / "cache/servers/added/mysql-8.4/tree"
    assert (tree / "bin/mysqld-link").readlink() == Path("mysqld")
    assert not (tree / "mysql-test").exists()
    record = json.loads((tree.parent / "added.json").read_text())
    assert (record["sha256"], record["version"][:5], record["compression"]) == (digest, "8.4.3", ["zlib", "zstd"])
    assert (record["huge_pages"], record["memcached"], record["libraries"]) == ("mmap", False, [])
    assert left_over(tmp_path) == ["mysql-8.4"]


def test_an_added_server_is_listed_used_and_removed(tmp_path: Path, archive: tuple[Path, str]) -> None:
    path, digest = archive
    (tmp_path / "x.toml").write_text(EXPERIMENT)
    before = mydyno(tmp_path, "plan", "x.toml")
    assert before.returncode == 2
    assert 'server.name = "mysql-8.4": unknown server' in before.stderr
    assert mydyno(tmp_path, "servers", "add", "mysql-8.4", "--archive", str(path), "--sha256", digest).returncode == 0
    listed = mydyno(tmp_path, "servers").stdout
    assert f"mysql-8.4      MySQL 8.4.3, added from {path.name}" in listed
    assert "in the cache, MySQL 8.4.3" in listed
    (row,) = [one for one in json.loads(mydyno(tmp_path, "servers", "--json").stdout)["servers"]
              if one["name"] == "mysql-8.4"]  # fmt: skip
    assert row["in_cache"] == "MySQL 8.4.3"
    planned = mydyno(tmp_path, "plan", "x.toml")
    assert "unknown server" not in planned.stdout + planned.stderr
    assert planned.returncode in (0, 3), planned.stdout + planned.stderr
    again = mydyno(tmp_path, "servers", "add", "mysql-8.4", "--archive", str(path), "--sha256", digest)
    assert (again.returncode, "added already" in again.stderr) == (2, True)
    with study_lock("fake-1", f"\0mydyno-test{tmp_path}"):
        refused = mydyno(tmp_path, "servers", "remove", "mysql-8.4")
    assert (refused.returncode, left_over(tmp_path)) == (3, ["mysql-8.4"])
    assert "another study is running on this host: fake-1 (pid" in refused.stderr
    assert mydyno(tmp_path, "servers", "remove", "mysql-8.4").stdout == "mysql-8.4 is removed\n"
    assert left_over(tmp_path) == []
    assert "mysql-8.4" not in mydyno(tmp_path, "servers").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "mysql-5.6"), "is a server of the catalogue"),
        (("add", "my server"), "not a possible name"),
        (("add", "../x"), "not a possible name"),
        (("add", "x", "--sha256", "abc"), "not a SHA-256"),
        (("add", "x", "--sha256", "0" * 64), "nothing was unpacked"),
        (("add", "x", "--archive", "nowhere.tar.xz"), "--archive nowhere.tar.xz: no such file"),
        (("remove", "mysql-8.4"), "no such server was added or built"),
        (("remove", "mysql-5.6"), "cannot be removed"),
    ],
)
def test_mistakes_leave_nothing(
    tmp_path: Path, archive: tuple[Path, str], arguments: tuple[str, ...], words: str
) -> None:
    given = [*arguments]
    if arguments[0] == "add":
        given += [] if "--archive" in given else ["--archive", str(archive[0])]
        given += [] if "--sha256" in given else ["--sha256", archive[1]]
    done = mydyno(tmp_path, "servers", *given)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert words in done.stderr
    assert left_over(tmp_path) == []


def add(tmp_path: Path, path: Path) -> str:
    """What `servers add` prints of an archive that it refuses."""
    done = mydyno(tmp_path, "servers", "add", "bad", "--archive", str(path), "--sha256", sha256(path))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert left_over(tmp_path) == []
    return done.stderr


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (tarfile.TarInfo("../outside"), "outside"),
        (tarfile.TarInfo("s/../../outside"), "outside"),
        ("link", "link"),
        ("device", "special file"),
    ],
)
def test_a_dangerous_archive_is_refused_as_a_whole(tmp_path: Path, member: tarfile.TarInfo | str, words: str) -> None:
    path = tmp_path / "bad.tar"
    fake_archive(tmp_path / "good.tar.gz")
    if isinstance(member, str):
        kind = member
        member = tarfile.TarInfo("s/odd")
        member.type = tarfile.SYMTYPE if kind == "link" else tarfile.CHRTYPE
        member.linkname = "/etc/passwd" if kind == "link" else ""
    with tarfile.open(path, "w") as made:
        made.addfile(member, io.BytesIO(b""))
    said = add(tmp_path, path)
    assert "is not unpacked" in said
    assert words in said
    assert not (tmp_path / "outside").exists() and not (tmp_path / "cache/servers/outside").exists()


def test_the_refusal_names_all_links_to_elsewhere_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "linked.tar"
    with tarfile.open(path, "w") as made:
        for name, target in (
            ("libssl.so", "../lib/libssl.so.1"),
            ("libprotobuf.so", "/tmp/lib"),
            ("other", "../../../x"),
        ):
            member = tarfile.TarInfo(f"s/bin/{name}")
            member.type, member.linkname = tarfile.SYMTYPE, target
            made.addfile(member)
    said = " ".join(add(tmp_path, path).split())
    assert "links that lead out of it: s/bin/libprotobuf.so, s/bin/other. " in said
    assert "pack it again" in said
    with tarfile.open(path, "a") as made:
        made.addfile(tarfile.TarInfo("../outside"))
    assert "take the archive from its vendor" in add(tmp_path, path)


def test_what_is_no_archive_or_no_server_says_what_it_is(tmp_path: Path) -> None:
    text = tmp_path / "readme.tar.gz"
    text.write_text("not found")
    assert "cannot be unpacked" in add(tmp_path, text)
    whole = tmp_path / "whole.tar.gz"
    fake_archive(whole, extra={"lib/large": bytes(range(256)) * 4000})
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    assert "cannot be unpacked" in add(tmp_path, cut)
    empty = tmp_path / "empty.tar"
    with tarfile.open(empty, "w"):
        pass
    assert "contains no files" in add(tmp_path, empty)
    client = tmp_path / "client.tar"
    with tarfile.open(client, "w") as made:
        made.addfile(tarfile.TarInfo("c/bin/mysql"), io.BytesIO(b""))
    assert "no mysqld or mariadbd in bin/" in add(tmp_path, client)
    foreign = tmp_path / "foreign.tar.gz"
    fake_archive(foreign, extra={"bin/mysqld": b"\x7fELF of another platform"})
    assert "does not start" in add(tmp_path, foreign)
    old = tmp_path / "old.tar.gz"
    fake_archive(old, version="5.1.73")
    assert "older than 5.5" in add(tmp_path, old)


@pytest.fixture
def served(tmp_path: Path, archive: tuple[Path, str]) -> Iterator[str]:
    """The URL of a folder with the archive, on loopback."""
    handler = partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args


class _Slow(_Quiet):
    SIZE = 1000

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(self.SIZE))
        self.end_headers()
        with suppress(ConnectionError):
            for _ in range(self.SIZE):
                self.wfile.write(b"x")
                time.sleep(0.02)


def test_an_interrupted_download_does_not_wait_for_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "archive"

    async def interrupted(url: str) -> None:
        task = asyncio.ensure_future(download(url, path, silent))
        while not (path.exists() or task.done()):
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Slow) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        asyncio.run(interrupted(f"http://127.0.0.1:{server.server_port}/archive"))
        server.shutdown()
        thread.join()
    assert path.stat().st_size < _Slow.SIZE


def test_an_archive_by_url_is_downloaded_and_checked(tmp_path: Path, archive: tuple[Path, str], served: str) -> None:
    path, digest = archive
    url = f"{served}/{path.name}"
    wrong = mydyno(tmp_path, "servers", "add", "far", "--archive", url, "--sha256", "0" * 64)
    assert (wrong.returncode, f"{url} has SHA-256 {digest}" in wrong.stderr) == (2, True)
    missing = mydyno(tmp_path, "servers", "add", "far", "--archive", f"{url}.none", "--sha256", digest)
    assert (missing.returncode, "404" in missing.stderr) == (3, True)
    assert left_over(tmp_path) == []
    done = mydyno(tmp_path, "servers", "add", "far", "--archive", url, "--sha256", digest)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "cache/servers/added/far/added.json").read_text())["archive"] == url
    assert left_over(tmp_path) == ["far"]


def test_an_image_of_an_arm_is_announced_with_its_registry_and_command(tmp_path: Path) -> None:
    text = EXPERIMENT.replace('name = "mysql-8.4"', 'name = "mysql-8.0"').replace(
        '"mysql-8.4" }', '"image:localhost:5000/db/mysql:8.4" }'
    )
    (tmp_path / "x.toml").write_text(text)
    done = mydyno(tmp_path, "plan", "x.toml")
    assert (
        "localhost:5000/db/mysql:8.4 will be fetched from the registry localhost:5000 and kept in the cache, by skopeo "
        "--insecure-policy copy --quiet --src-tls-verify=false docker://localhost:5000/db/mysql:8.4 oci:FOLDER:image\n"
    ) in done.stdout, done.stderr
    assert left_over(tmp_path) == []


@pytest.mark.parametrize("image", ["mysql", "image:mysql:8.4", "image:docker.io/mysql:8.4 --x", "image:--help/x"])
def test_what_is_no_image_is_refused_in_the_file(tmp_path: Path, image: str) -> None:
    text = EXPERIMENT.replace('name = "mysql-8.4"', 'name = "mysql-8.0"')
    (tmp_path / "x.toml").write_text(text.replace('"mysql-8.4" }', f'"{image}" }}'))
    done = mydyno(tmp_path, "plan", "x.toml")
    assert done.returncode == 2
    assert "arms.new.server" in done.stderr
    assert ("REGISTRY/NAME:TAG, as in docker.io/library/mysql:8.4" in done.stderr) == image.startswith("image:")
