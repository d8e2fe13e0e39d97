"""`mydyno servers add --oci`: layers in order, whiteouts, links, digests, tags, platforms, and wrong input."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

import pytest

from mydyno.errors import UserError
from mydyno.packages.oci_layout import MACHINES, read_image
from tests.support.oci import INDEX, Content, blob, image, layer, layout, tagged
from tests.support.server_archive import fake_program
from tests.unit.cli.test_command_line import mydyno
from tests.unit.servers.test_added_servers import left_over

BASE: dict[str, Content] = {
    "usr/sbin/mysqld": fake_program("8.0.1"),
    "usr/share/mysql/english/errmsg.sys": b"messages",
    "usr/lib/gone/old.so": b"",
    "usr/lib/opaque/old.so": b"",
    "etc/passwd": b"root",
    "usr/bin/tool": "/etc/alternatives/tool",
    "lib": "usr/lib",
}
NEXT: dict[str, Content] = {
    "usr/sbin/mysqld": fake_program("8.4.3"),
    "usr/lib/.wh.gone": b"",
    "usr/lib/opaque/.wh..wh..opq": b"",
    "usr/lib/opaque/new.so": b"",
    "lib/by-link.so": b"",
}


def add(tmp_path: Path, oci: str, *more: str) -> tuple[int, str, str]:
    done = mydyno(tmp_path, "servers", "add", "own", "--oci", oci, *more)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("packing", ["", "gzip", "zstd"])
def test_layers_are_applied_in_order_and_the_server_is_used_by_name(tmp_path: Path, packing: str) -> None:
    folder = tmp_path / "image"
    entry = image(folder, [layer(BASE), layer(NEXT)], packing)
    layout(folder, [entry])
    code, out, said = add(tmp_path, str(folder), "--sha256", entry["digest"])
    assert (code, out) == (0, 'own: MySQL 8.4.3 from image; in an experiment: server.name = "own"\n'), said
    tree = tmp_path / "cache/servers/added/own/tree"
    assert not (tree / "usr/lib/gone").exists()
    assert [path.name for path in (tree / "usr/lib/opaque").iterdir()] == ["new.so"]
    assert (tree / "usr/lib/by-link.so").is_file()
    assert not (tree / "etc").exists(), "settings of an image are not used"
    assert (tree / "usr/bin/tool").readlink() == Path("../../etc/alternatives/tool")
    record = json.loads((tree.parent / "added.json").read_text())
    assert (record["image"], f"sha256:{record['sha256']}") == (True, entry["digest"])
    assert "own " in mydyno(tmp_path, "servers").stdout
    assert mydyno(tmp_path, "servers", "remove", "own").returncode == 0
    assert left_over(tmp_path) == []


def test_a_tag_and_the_platform_choose_the_image(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    here = {"os": "linux", "architecture": MACHINES.get(platform.machine(), platform.machine())}
    other = {"os": "linux", "architecture": "s390x"}
    both = [
        {**image(folder, [layer(BASE)]), "platform": other},
        {**image(folder, [layer(BASE), layer(NEXT)]), "platform": here},
    ]
    index = blob(folder, json.dumps({"manifests": both}).encode(), INDEX)
    layout(folder, [tagged(image(folder, [layer(BASE)]), "8.0"), tagged(index, "8.4")])
    code, _, said = add(tmp_path, str(folder))
    assert (code, "has 2 images" in said, "tags: 8.0, 8.4" in said) == (2, True, True)
    assert "has no image 9" in add(tmp_path, f"{folder}:9")[2]
    assert add(tmp_path, f"{folder}:8.4")[1].startswith("own: MySQL 8.4.3")
    foreign = blob(folder, json.dumps({"manifests": both[:1]}).encode(), INDEX)
    layout(folder, [foreign])
    assert mydyno(tmp_path, "servers", "remove", "own").returncode == 0
    assert "it has linux/s390x" in add(tmp_path, str(folder))[2]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"usr/../../outside": b""}, "outside"),
        ({"usr/up": "../..", "usr/up/outside": b""}, "outside"),
        ({"etc/passwd": b""}, "no mysqld or mariadbd"),
    ],
)
def test_an_image_that_leads_elsewhere_or_has_no_server_leaves_nothing(
    tmp_path: Path, files: dict[str, Content], words: str
) -> None:
    folder = tmp_path / "image"
    layout(folder, [image(folder, [layer(files)])])
    code, out, said = add(tmp_path, str(folder))
    assert (code, out) == (2, ""), said
    assert words in said
    assert left_over(tmp_path) == []
    assert not list(tmp_path.rglob("outside"))


def test_damaged_and_missing_blobs_are_named_before_anything_is_unpacked(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    entry = image(folder, [layer(BASE)])
    layout(folder, [entry])
    assert "nothing was unpacked" in add(tmp_path, str(folder), "--sha256", "0" * 64)[2]
    blobs = folder / "blobs/sha256"
    manifest = json.loads((blobs / entry["digest"].partition(":")[2]).read_text())
    path = blobs / manifest["layers"][0]["digest"].partition(":")[2]
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert "not what its name says" in add(tmp_path, str(folder))[2]
    path.unlink()
    assert "lacks the blob sha256:" in add(tmp_path, str(folder))[2]
    assert left_over(tmp_path) == []


@pytest.mark.parametrize(
    "index",
    [
        "[" * 100_000,
        json.dumps({"manifests": [{"annotations": None, "digest": 1}]}),
        json.dumps({"manifests": [{"annotations": [], "platform": []}] * 2}),
    ],
)
def test_an_index_of_other_types_is_refused(tmp_path: Path, index: str) -> None:
    (tmp_path / "image").mkdir()
    layout(tmp_path / "image", [])
    (tmp_path / "image/index.json").write_text(index)
    with pytest.raises(UserError):
        read_image(tmp_path / "image")


def test_an_index_whose_platforms_are_none_has_no_image(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    layout(folder, [blob(folder, json.dumps({"manifests": [{"platform": None}]}).encode(), INDEX)])
    with pytest.raises(UserError, match="has no image for linux/"):
        read_image(folder)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "one of --archive, --oci and --image is needed"),
        (("--oci", "x", "--archive", "y"), "one of --archive, --oci and --image is needed"),
        (("--oci", "nowhere"), "no such folder"),
        (("--oci", "."), "is no OCI image layout"),
        (("--oci", ".", "--sha256", "abc"), "not a SHA-256"),
    ],
)
def test_wrong_arguments_say_what_is_expected(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = mydyno(tmp_path, "servers", "add", "own", *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert words in done.stderr


SKOPEO = """#!/bin/sh
echo "$@" >{folder}/said
case "$*" in
*no-such*) echo 'FATA[0000] manifest unknown' >&2; exit 1 ;;
esac
for last; do :; done
target=${{last#oci:}}
cp -r {folder}/image "${{target%:*}}"
"""


def test_an_image_of_a_registry_is_copied_by_skopeo_and_kept_with_its_digest(tmp_path: Path) -> None:
    entry = image(tmp_path / "image", [layer(BASE), layer(NEXT)])
    layout(tmp_path / "image", [tagged(entry, "image")])
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "skopeo").write_text(SKOPEO.format(folder=tmp_path))
    (programs / "skopeo").chmod(0o755)
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}
    command = ("servers", "add", "own", "--image")
    done = mydyno(tmp_path, *command, "127.0.0.1:5000/mysql:8.4", **path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("own: MySQL 8.4.3 from mysql:8.4;")
    assert f"is {entry['digest']} now" in done.stderr
    said = (tmp_path / "said").read_text()
    assert "--src-tls-verify=false docker://127.0.0.1:5000/mysql:8.4 oci:" in said
    record = json.loads((tmp_path / "cache/servers/added/own/added.json").read_text())
    assert f"sha256:{record['sha256']}" == entry["digest"]
    assert mydyno(tmp_path, "servers", "remove", "own").returncode == 0
    failed = mydyno(tmp_path, *command, "docker.io/library/no-such:1", **path)
    assert failed.returncode == 3
    assert "docker.io/library/no-such:1 cannot be copied: FATA[0000] manifest unknown" in failed.stderr
    assert "--src-tls-verify" not in (tmp_path / "said").read_text()
    other = mydyno(tmp_path, *command, "docker.io/library/mysql:8.4", "--sha256", "0" * 64, **path)
    assert other.returncode == 2
    assert "nothing was unpacked" in other.stderr
    for wrong in ("mysql", "docker.io/library/mysql:8.4; rm", "oci:folder:tag"):
        refused = mydyno(tmp_path, *command, wrong, **path)
        assert refused.returncode == 2
        assert "REGISTRY/NAME:TAG" in refused.stderr
    assert left_over(tmp_path) == []
