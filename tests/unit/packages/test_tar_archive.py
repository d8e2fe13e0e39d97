"""Hostile and damaged archives: nothing is written, changed or linked outside of the folder, whatever they name."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import io
import lzma
import os
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mydyno.errors import UserError
from mydyno.files.tree import Limits, Tree, resolve
from mydyno.packages.tar_archive import extract
from mydyno.servers.sources.archive import unpacked
from tests.support.oci import zstd

Entry = tuple[str, bytes, str | bytes]
"""(name, kind of tarfile, target of a link or content)."""
FILE, LINK, HARD, FOLDER = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE


def packed(path: Path, *entries: Entry, mode: int = 0o644, form: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w", format=form) as made:
        for name, kind, content in entries:
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.uid, member.uname = kind, mode, 12345, "stranger"
            data = content.encode() if isinstance(content, str) else content
            if kind == FILE:
                member.size = len(data)
            else:
                member.linkname = data.decode()
            made.addfile(member, io.BytesIO(data) if kind == FILE else None)
    return path


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file beside the folder that is filled."""
    path = tmp_path / "victim"
    path.write_text("mine")
    path.chmod(0o600)
    return path


def refused(archive: Path, victim: Path, words: str) -> None:
    before = sorted(str(path) for path in victim.parent.iterdir() if path.name != "out")
    with pytest.raises(UserError) as caught:
        extract(archive, victim.parent / "out", lambda name: name)
    assert words in str(caught.value), caught.value
    assert sorted(str(path) for path in victim.parent.iterdir() if path.name != "out") == before
    assert (victim.read_text(), stat.S_IMODE(victim.stat().st_mode), victim.stat().st_nlink) == ("mine", 0o600, 1)


def beyond_path_max(victim: Path) -> tuple[Entry, ...]:
    """Links whose resolved path is longer than PATH_MAX, which realpath() gives up on (CVE-2025-4517)."""
    entries: list[Entry] = []
    part, path = "d" * 247, ""
    for letter in "abcdefghijklmnop":
        entries += [(f"{path}{part}", FOLDER, b""), (f"{path}{letter}", LINK, part)]
        path += f"{letter}/"
    last = "/".join("abcdefghijklmnop") + "/" + "l" * 254
    entries += [(last, LINK, "../" * 16), ("escape", LINK, f"{last}/../victim"), ("escape", FILE, "theirs")]
    return tuple(entries)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([("/victim", FILE, "theirs")], "/victim leads out"),
        ([("a/../../victim", FILE, "theirs")], "leads out"),
        ([("a", LINK, "../victim"), ("a", HARD, "a")], "hard link to itself"),
        ([("a", LINK, "../victim"), ("b", HARD, "a")], "which is no file"),
        ([("b", HARD, "../victim")], "leads out"),
        ([("b", HARD, "nothing")], "b is a hard link to nothing, which is not before it"),
        ([("b", HARD, "no/thing")], "not before it"),
        ([("b/c", FILE, "x"), ("b", HARD, "b/c")], "which is no file"),
        ([("a", LINK, ".."), ("a/victim", FILE, "theirs")], "a/victim lies below a, a file or link"),
        ([("a", FOLDER, ""), ("a", LINK, ".."), ("a/victim", FILE, "theirs")], "lies below a"),
        ([("a/b", FOLDER, ""), ("a", LINK, ".."), ("a/victim", HARD, "a/b")], "lies below a"),
        ([("a", LINK, "../victim")], "a is a link that leads outside"),
        ([("a", LINK, "/victim")], "leads outside"),
        ([("c", LINK, "d/e"), ("d/e", LINK, "../.."), ("f", LINK, "c/victim")], "leads outside"),
        ([("a", tarfile.CHRTYPE, "")], "a is a special file"),
        ([("a", tarfile.BLKTYPE, "")], "a is a special file"),
        ([("a", tarfile.FIFOTYPE, "")], "a is a special file"),
        ([("n" * 256, FILE, "")], "longer than a path or a name may be"),
        ([("/".join(["n" * 200] * 21), FILE, "")], "longer than a path or a name may be"),
        ([("a/" * 101 + "x", FILE, "")], "lies in more than 100 folders"),
        ([("", FILE, "")], "'' is no name"),
        ([("a\0b", FILE, "")], "leads out"),
        ([("a", LINK, "")], "without a valid target"),
    ],
)
@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_what_leads_elsewhere_is_refused(
    tmp_path: Path, victim: Path, entries: list[Entry], words: str, form: int
) -> None:
    if "\0" in entries[0][0] and form == tarfile.GNU_FORMAT:
        return  # only pax has names with zeros
    archive = packed(tmp_path / "x.tar", *entries, form=form)
    if "\0" in entries[0][0]:
        archive.write_bytes(archive.read_bytes())
        with tarfile.open(archive, "w", format=form) as made:
            member = tarfile.TarInfo("a")
            member.pax_headers = {"path": entries[0][0]}
            made.addfile(member)
    refused(archive, victim, words)


def test_links_whose_path_is_longer_than_the_kernels_limit_are_not_followed(tmp_path: Path, victim: Path) -> None:
    refused(packed(tmp_path / "x.tar", *beyond_path_max(victim)), victim, "lies below")


def test_a_later_member_replaces_what_an_earlier_one_made_and_never_what_it_leads_to(tmp_path: Path) -> None:
    archive = packed(
        tmp_path / "x.tar",
        ("lib/real", FILE, "one"), ("lib/other", HARD, "lib/real"), ("lib/link", LINK, "real"),
        ("lib/link", FILE, "two"), ("lib/other", FILE, "three"),
        ("deep/a/b", FILE, "x"), ("deep/up", LINK, "../lib"), ("deep", FILE, "no folder any more"),
        ("run", LINK, "lib"), ("run", FOLDER, ""), ("run/x", FILE, "in a folder of its own"),
    )  # fmt: skip
    out = tmp_path / "out"
    assert extract(archive, out, lambda name: name) == 6
    assert [(out / "lib" / name).read_text() for name in ("real", "link", "other")] == ["one", "two", "three"]
    assert (out / "deep").read_text() == "no folder any more"
    assert not (out / "lib/x").exists() and (out / "run/x").is_file() and not (out / "run").is_symlink()


def test_an_archive_without_a_file_is_no_server(tmp_path: Path) -> None:
    for archive in (packed(tmp_path / "none.tar"), packed(tmp_path / "folders.tar", ("bin", FOLDER, ""))):
        with pytest.raises(UserError, match="contains no files"):
            asyncio.run(unpacked(archive, tmp_path / "cache"))


def test_links_within_are_kept_and_modes_and_owners_are_not(tmp_path: Path) -> None:
    archive = packed(
        tmp_path / "x.tar", ("lib/libssl.so.1", FILE, "elf"), ("lib/libssl.so", LINK, "libssl.so.1"),
        ("bin/libssl.so", LINK, "../lib/libssl.so"), ("bin/mysqld", HARD, "lib/libssl.so.1"), ("round", LINK, "round"),
        mode=0o7777,
    )  # fmt: skip
    out = tmp_path / "out"
    extract(archive, out, lambda name: name)
    assert (out / "bin/libssl.so").read_text() == "elf"
    found = (out / "bin/mysqld").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_nlink) == (0o755, os.getuid(), 2)


def sparse(path: Path, size: int, form: str) -> Path:
    """A sparse file as GNU tar packs it."""
    source = path.with_suffix(".hole")
    with source.open("wb") as file:
        file.truncate(size)
        file.seek(size // 2)
        file.write(b"middle")
    words = ["tar", "--create", "--sparse", f"--sparse-version={form}", f"--format={'gnu' if form == 'old' else 'pax'}"]
    if form == "old":
        words.remove("--sparse-version=old")
    subprocess.run([*words, f"--file={path}", f"--directory={path.parent}", source.name], check=True)
    return path


@pytest.mark.parametrize("form", ["old", "0.0", "0.1", "1.0"])
def test_sparse_files_count_as_large_as_they_are(tmp_path: Path, form: str) -> None:
    archive = sparse(tmp_path / "x.tar", 8 << 20, form)
    extract(archive, tmp_path / "out", lambda name: name)
    assert (tmp_path / "out/x.hole").read_bytes() == (tmp_path / "x.hole").read_bytes()
    with pytest.raises(UserError, match=r"x\.hole: the files are larger than"):
        extract(archive, tmp_path / "again", lambda name: name, Limits(bytes=(8 << 20) - 1))
    assert not (tmp_path / "again/x.hole").exists()


def test_the_limits_hold_for_the_sum_and_for_what_is_left_out(tmp_path: Path) -> None:
    archive = packed(tmp_path / "x.tar", *((f"f{number}", FILE, b"x" * 1000) for number in range(5)))
    with pytest.raises(UserError, match="f4: there are more than 4 files, folders and links"):
        extract(archive, tmp_path / "a", lambda name: name, Limits(members=4))
    with pytest.raises(UserError, match="it is larger than 7000 bytes"):
        extract(archive, tmp_path / "b", lambda name: None, Limits(bytes=7000))
    with (
        pytest.raises(UserError, match="f4: the files are larger than 9999 bytes together"),
        Tree(tmp_path / "c", limits=Limits(bytes=9999)) as tree,
    ):
        for number in range(5):
            tree.file(f"f{number}", 0, [b"x" * 2000])


def header(kind: bytes, size: int, name: str = "x") -> bytes:
    """One block; the size may be negative, as base-256 numbers may."""
    member = tarfile.TarInfo(name)
    member.type = kind
    block = bytearray(member.tobuf(tarfile.USTAR_FORMAT))
    block[124:136] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)  # type: ignore[attr-defined]
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (header(FILE, -512), "cannot be unpacked"),
        (header(tarfile.GNUTYPE_LONGNAME, 1 << 33), "headers of one member of more than 4 MiB"),
        (header(tarfile.XHDTYPE, 1 << 33), "headers of one member of more than 4 MiB"),
        (header(tarfile.GNUTYPE_LONGNAME, 0) * 3000 + header(FILE, 0), "cannot be unpacked"),
        (header(FILE, 1 << 62), f"larger than {16 << 30} bytes"),
        (header(FILE, 2000) + bytes(1024), "cannot be unpacked"),
        (header(FILE, 0) + header(FILE, 0, "y")[:300], "a damaged or incomplete header"),
        (header(FILE, 0) + b"garbage!" * 64, "a damaged or incomplete header"),
        (b"", "cannot be unpacked"),
        (b"garbage!" * 100, "cannot be unpacked"),
    ],
)
def test_false_headers_end_at_once(tmp_path: Path, victim: Path, content: bytes, words: str) -> None:
    archive = tmp_path / "x.tar"
    archive.write_bytes(content)
    refused(archive, victim, words)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, zstd.compress])
def test_compressed_archives_may_be_of_several_parts_and_must_be_whole(
    tmp_path: Path, victim: Path, compress: Callable[[bytes], bytes]
) -> None:
    data = packed(tmp_path / "plain.tar", ("a", FILE, os.urandom(50_000)), ("b", FILE, "last")).read_bytes()
    archive = tmp_path / "x.tar.z"
    archive.write_bytes(compress(data[:20_000]) + compress(data[20_000:]))
    assert extract(archive, tmp_path / "parts", lambda name: name) == 2
    whole = compress(data)
    for length in (len(whole) - 3, len(whole) // 2, 20):
        archive.write_bytes(whole[:length])
        refused(archive, victim, "cannot be unpacked")
    if compress is zstd.compress:
        return  # made without a checksum
    archive.write_bytes(whole[: len(whole) // 2] + b"\xff" * 8 + whole[len(whole) // 2 + 8 :])
    refused(archive, victim, "cannot be unpacked")


@pytest.mark.parametrize(
    ("path", "links", "expected"),
    [
        ("a/b", {}, "a/b"),
        ("a/b", {"a": "c"}, "c/b"),
        ("a/b", {"a": "c/../d", "c": "e/f"}, "e/d/b"),
        ("a", {"a": "../x"}, None),
        ("a", {"a": "b/../../x", "b": "c/d"}, "x"),
        ("a", {"a": "/x"}, None),
        ("a", {"a": "b", "b": "a"}, "a"),
    ],
)
def test_links_are_resolved_as_the_kernel_does(path: str, links: dict[str, str], expected: str | None) -> None:
    found = resolve(tuple(path.split("/")), {tuple(one.split("/")): to for one, to in links.items()})
    assert (None if found is None else "/".join(found)) == expected


def test_a_member_below_a_link_is_written_to_where_it_leads_within_the_tree_alone(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    with Tree(tmp_path / "out", through_links=True) as tree:
        tree.folder("usr/lib")
        tree.link("lib", "usr/lib")
        tree.file("lib/a.so", 1, [b"a"])
        tree.link("up", "../outside")
        for refuse in (lambda: tree.file("up/x", 1, [b"x"]), lambda: tree.hard_link("lib/b", "up/x"),
                       lambda: tree.remove("up/x"), lambda: tree.empty("up"), lambda: tree.folder("up/x")):  # fmt: skip
            with pytest.raises(UserError, match="leads out of its folder by a link"):
                refuse()
        # What another process puts there meanwhile is not followed either.
        (tmp_path / "out/usr/lib/planted").symlink_to(tmp_path / "outside")
        with pytest.raises(UserError, match="lies below usr/lib/planted"):
            tree.file("lib/planted/x", 1, [b"x"])
        (tmp_path / "out/usr/lib/b.so").symlink_to(tmp_path / "outside/x")
        tree.file("lib/b.so", 1, [b"b"])
    assert list((tmp_path / "outside").iterdir()) == []
    assert (tmp_path / "out/usr/lib/b.so").read_text() == "b"
