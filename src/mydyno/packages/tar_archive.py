"""Tar archives from outside, packed by gzip, bzip2, xz, zstd or not at all, and those in Debian packages. Only headers
are read by Python's tarfile; what is written is written by `Tree`, on every version of Python alike.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, cast

from mydyno.errors import HostError, UserError
from mydyno.files.tree import LIMITS, Limits, Tree

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

NAMED = 5
"""Links of a refused archive that are named, so that a message is one."""
MOST_HEADER_BYTES = 4 << 20
"""Bytes of the headers of one member: of long names, attributes, maps of sparse files. tarfile reads them whole."""
PIECE_BYTES = 1 << 20
AR_MAGIC, AR_HEADER_BYTES = b"!<arch>\n", 60
"""Of the ar archive that a Debian package is (deb(5))."""
Place = Callable[[str], str | None]
"""A member's name → its path below the folder; None: it is left out."""
Member = tuple[tarfile.TarInfo, Iterator[bytes]]
"""A member's header, and its content, to be read before the next member."""


def extract(archive: Path, folder: Path, place: Place, limits: Limits = LIMITS) -> int:
    """Unpack the members that have a place; returns how many files.

    Raises UserError for a damaged or dangerous archive, HostError where it cannot be read or written.
    """
    count = 0
    with _refusals(archive), Tree(folder, limits=limits) as tree:
        for member, content in members(archive, limits):
            if (target := place(member.name.removeprefix("./"))) is not None:
                _put(tree, target, member, content, place)
                count += member.isreg()
        _check_links(tree)
    return count


def extract_packages(archives: Sequence[Path], folder: Path, limits: Limits = LIMITS) -> None:
    """Unpack Debian packages (deb(5)) into one folder. Raises as extract() does.

    Links that lead out of it are left out: the absolute ones of packages that are meant to be installed.
    """
    with Tree(folder, through_links=True, limits=limits) as tree:
        for archive in archives:
            with _refusals(archive):
                for member, content in package_members(archive, limits):
                    _put(tree, member.name, member, content, lambda name: name)
        for link in tree.outgoing_links():
            tree.remove(link)


@contextmanager
def _refusals(archive: Path) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise _refused(archive, error) from error
    except OSError as error:
        raise HostError(f"{archive} cannot be unpacked: {error.strerror or error}") from error


def _put(tree: Tree, target: str, member: tarfile.TarInfo, content: Iterator[bytes], place: Place) -> None:
    if member.isreg():
        tree.file(target, member.size, content, executable=bool(member.mode & 0o100))
    elif member.isdir():
        tree.folder(target)
    elif member.issym():
        tree.link(target, member.linkname)
    elif member.islnk():
        linked = place(member.linkname.removeprefix("./"))
        if linked is None:
            raise UserError(f"{member.name} is a link to {member.linkname}, which is left out")
        tree.hard_link(target, linked)
    else:
        raise UserError(f"{member.name} is a special file")


def _check_links(tree: Tree) -> None:
    if outgoing := tree.outgoing_links():
        raise UserError(f"{outgoing[0]} is a link that leads outside", _hint(outgoing))


def members(archive: Path, limits: Limits = LIMITS) -> Iterator[Member]:
    """The members of an archive in its order. Raises DamagedError, HostError where it cannot be read."""
    with _damage(archive), archive.open("rb") as file:
        yield from _members(archive, file, limits)


def package_members(archive: Path, limits: Limits = LIMITS) -> Iterator[Member]:
    """The files of a Debian package: the members of its data.tar. Raises as members() does."""
    with _damage(archive), archive.open("rb") as file:
        yield from _members(archive, _data_of_package(file), limits)


def _members(archive: Path, file: io.BufferedReader, limits: Limits) -> Iterator[Member]:
    with closing(_decompressed(file)) as packed:
        stream = _Forward(packed, limits.bytes)
        with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r:") as source:
            while (member := source.next()) is not None:
                yield member, _content(archive, source, member, stream)
                stream.header_bytes = 0
                source.members.clear()  # type: ignore[attr-defined] # it keeps every one that it has read
            stream.check_end()
        stream.skip()


def _data_of_package(file: io.BufferedReader) -> io.BufferedReader:
    """The data.tar in the ar archive that a Debian package is, compressed as it is there."""
    if file.read(len(AR_MAGIC)) != AR_MAGIC:
        raise tarfile.ReadError("it is not a Debian package")
    while len(header := file.read(AR_HEADER_BYTES)) == AR_HEADER_BYTES and header.endswith(b"`\n"):
        size = header[48:58].strip()
        if not size.isdigit():
            break
        if header.startswith(b"data.tar"):
            return io.BufferedReader(_Part(file, int(size)))
        file.seek(int(size) + int(size) % 2, io.SEEK_CUR)
    raise tarfile.ReadError("it has no data.tar")


_DAMAGE = (
    tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError, zlib.error, lzma.LZMAError, zstd.ZstdError,
)  # fmt: skip


class DamagedError(UserError):
    """An archive that cannot be read as one."""


def _content(archive: Path, source: tarfile.TarFile, member: tarfile.TarInfo, stream: _Forward) -> Iterator[bytes]:
    with _damage(archive):
        file = source.extractfile(member)
        left = member.size if file is not None else 0
        while file is not None and left > 0:
            stream.header_bytes = 0
            piece = file.read(min(PIECE_BYTES, left))
            if not piece:
                raise EOFError("the archive ends within a file")
            left -= len(piece)
            yield piece


@contextmanager
def _damage(archive: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            raise HostError(f"{archive} cannot be read: {error.strerror}") from error
        raise _damaged(archive, error) from error
    except _DAMAGE as error:
        raise _damaged(archive, error) from error


def _damaged(archive: Path, error: Exception) -> DamagedError:
    return DamagedError(f"{archive} cannot be unpacked: {error}", "is it a whole tar archive?")


def _refused(archive: Path, error: UserError) -> UserError:
    if isinstance(error, DamagedError):
        return error
    return UserError(f"{archive} is not unpacked: {error.message}", error.hint or "take the archive from its vendor")


def _hint(links: list[str]) -> str:
    """What to do about an archive that is refused for its links alone."""
    named = ", ".join(links[:NAMED]) + (f" and {len(links) - NAMED} more" if len(links) > NAMED else "")
    return (
        f"links that lead out of it: {named}. If the server starts without, unpack it elsewhere, delete them, pack it "
        "again, and add that archive by its own hash; or unpack it and set server.basedir to the folder"
    )


def _decompressed(file: io.BufferedReader) -> IO[bytes]:
    """The content, its compression recognised by its first bytes."""
    first = file.peek(6)
    if first.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.open(file))
    if first.startswith(b"BZh"):
        return cast("IO[bytes]", bz2.open(file))
    if first.startswith(b"\xfd7zXZ\0"):
        return cast("IO[bytes]", lzma.open(file))
    if first.startswith(b"\x28\xb5\x2f\xfd"):
        return cast("IO[bytes]", zstd.open(file))
    return file


class _Part(io.RawIOBase):
    """The next bytes of a file, as many as stated."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        super().__init__()
        self._file = file
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._file.read(min(len(buffer), self._left))
        self._left -= len(piece)
        buffer[: len(piece)] = piece
        return len(piece)


class _Forward:
    """What tarfile reads from: never backwards, as the negative size of a hostile header would, and within limits."""

    def __init__(self, source: IO[bytes], most_bytes: int) -> None:
        self._source = source
        self._most_bytes = most_bytes
        self._position = 0
        self.header_bytes = 0
        """Read since the last member or piece of a file."""
        self._last = b""
        """What read() returned last."""

    def check_end(self) -> None:
        """Raise ReadError if tarfile took a damaged header for the end: no block of zeros, and not the last byte."""
        if self._last.strip(b"\0") or len(self._last) not in (0, tarfile.BLOCKSIZE):
            raise tarfile.ReadError("a damaged or incomplete header")

    def tell(self) -> int:
        """Bytes that were read."""
        return self._position

    def seek(self, position: int) -> None:
        """Skip bytes up to there."""
        if position < self._position:
            raise tarfile.ReadError("a header leads back")
        self.skip(position - self._position)

    def skip(self, size: int | None = None) -> None:
        """Read so many bytes, or up to the end, and forget them."""
        left = self._most_bytes + 1 if size is None else size
        while left > 0 and (piece := self._read(min(left, PIECE_BYTES))):
            left -= len(piece)

    def read(self, size: int) -> bytes:
        """As many bytes, fewer at the end."""
        self.header_bytes += size
        if size < 0 or self.header_bytes > MOST_HEADER_BYTES:
            raise tarfile.ReadError(f"headers of one member of more than {MOST_HEADER_BYTES >> 20} MiB")
        pieces = []
        while size > 0 and (piece := self._read(size)):
            pieces.append(piece)
            size -= len(piece)
        self._last = b"".join(pieces)
        return self._last

    def _read(self, size: int) -> bytes:
        piece = self._source.read(size)
        self._position += len(piece)
        if self._position > self._most_bytes:
            raise tarfile.ReadError(f"it is larger than {self._most_bytes} bytes")
        return piece
