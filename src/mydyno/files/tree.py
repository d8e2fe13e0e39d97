"""A folder that is filled as others' archives name it: no member is written outside of it, no link in it is followed.

Each folder on the way is opened by its own name with O_NOFOLLOW, and what is made is made in that open folder (openat,
symlinkat, linkat), so that neither links nor paths longer than PATH_MAX lead elsewhere. Files are the user's own, with
mode 0644 or 0755: owners, set-user-ID bits, extended attributes and special files are not taken over.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from mydyno.errors import UserError

MOST_NAME_BYTES, MOST_PATH_BYTES = 255, 4095
"""NAME_MAX and PATH_MAX (without its final zero) of limits.h."""
MOST_DEPTH = 100
"""Folders in each other: several times as many as a server's sources have. Python removes them by recursion."""
MOST_HOPS = 40
"""Links after which the kernel ends the search (path_resolution(7))."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
Parts = tuple[str, ...]


@dataclass(frozen=True)
class Limits:
    """How large a tree may become: several times the largest server with its debug builds and tests."""

    bytes: int = 16 << 30
    """Of all files."""
    members: int = 250_000
    """Files, folders and links."""


LIMITS = Limits()


class Tree:
    """Fills one folder. Names are relative, with `/`; a later member replaces an earlier one of its name.

    Every method raises UserError for a name, link or size that is refused. Only outgoing_links() judges where symbolic
    links lead. With `through_links` a member may lie below a link of this tree, as in images, whose layers may name a
    folder by a link of an earlier one: the link's target is computed, and that folder is opened.
    """

    def __init__(self, root: Path, *, through_links: bool = False, limits: Limits = LIMITS) -> None:
        self._root = root
        self._limits = limits
        self._through_links = through_links
        self._links: dict[Parts, str] = {}
        """Every symbolic link that is there → its target."""
        self._bytes = self._members = 0

    def __enter__(self) -> Self:
        self._root.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._root, _FOLDER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def file(self, name: str, size_bytes: int, content: Iterable[bytes], *, executable: bool = False) -> None:
        """Write a file. `size_bytes`: what the archive states, to be refused before the first byte."""
        self._add(name, size_bytes, 0)
        with (
            self._cleared(name) as (folder, last),
            os.fdopen(os.open(last, _NEW_FILE, 0o600, dir_fd=folder), "wb") as file,
        ):
            for piece in content:
                self._add(name, len(piece), len(piece))
                file.write(piece)
            os.fchmod(file.fileno(), 0o755 if executable else 0o644)

    def folder(self, name: str) -> None:
        """Make a folder, if it is not there; files in one that is there are kept."""
        parts = self._resolved(name, self._parts(name))
        self._count(name)
        if not parts:
            return
        with self._opened(name, parts[:-1]) as above:
            if not _is_folder(above, parts[-1]):
                self._remove(above, parts)
        with self._opened(name, parts):
            pass

    def link(self, name: str, target: str) -> None:
        """Make a symbolic link, wherever it leads."""
        if not target or "\0" in target or len(os.fsencode(target)) > MOST_PATH_BYTES:
            raise UserError(f"{name}: a link without a valid target")
        with self._cleared(name) as (folder, last):
            os.symlink(target, last, dir_fd=folder)
            self._links[self._own(name)] = target

    def hard_link(self, name: str, existing: str) -> None:
        """Give a file of this tree another name."""
        source, own = self._own(existing), self._own(name)
        if source == own:
            raise UserError(f"{name} is a hard link to itself")
        with self._opened(existing, source[:-1]) as folder:
            if not _is_there(folder, source[-1]):
                raise UserError(f"{name} is a hard link to {existing}, which is not before it")
            mode = os.stat(source[-1], dir_fd=folder, follow_symlinks=False).st_mode
            if not stat.S_ISREG(mode) or source[: len(own)] == own:
                raise UserError(f"{name} is a hard link to {existing}, which is no file")
            with self._cleared(name) as (to, last):
                os.link(source[-1], last, src_dir_fd=folder, dst_dir_fd=to, follow_symlinks=False)

    def remove(self, name: str) -> None:
        """Remove a file, link or whole folder, if it is there."""
        parts = self._own(name)
        try:
            with self._opened(name, parts[:-1], make=False) as folder:
                self._remove(folder, parts)
        except FileNotFoundError:
            return

    def empty(self, name: str) -> None:
        """Remove all that is in a folder, if it is there."""
        parts = self._resolved(name, self._parts(name))
        try:
            with self._opened(name, parts, make=False) as folder:
                for inner in os.listdir(folder):  # noqa: PTH208 - a descriptor
                    self._remove(folder, (*parts, inner))
        except FileNotFoundError:
            return

    def outgoing_links(self) -> list[str]:
        """The symbolic links that lead out of the tree, by themselves or by other links: a tree with any is unsafe."""
        return ["/".join(parts) for parts in self._links if resolve(parts, self._links) is None]

    @contextmanager
    def _cleared(self, name: str) -> Iterator[tuple[int, str]]:
        """A descriptor of the member's folder, and its name there, which is free."""
        self._count(name)
        parts = self._own(name)
        with self._opened(name, parts[:-1]) as folder:
            self._remove(folder, parts)
            yield folder, parts[-1]

    def _own(self, name: str) -> Parts:
        """The place of a member: its folder's, and its own name, which may be a link's."""
        parts = self._parts(name)
        if not parts:
            raise UserError(f"{name!r} is no name of a file or link")
        return (*self._resolved(name, parts[:-1]), parts[-1])

    def _parts(self, name: str) -> Parts:
        parts = tuple(part for part in name.split("/") if part not in ("", "."))
        if name.startswith("/") or ".." in parts or "\0" in name:
            raise UserError(f"{name} leads out of its folder")
        length = len(os.fsencode(self._root)) + 1 + len(os.fsencode(name))
        if length > MOST_PATH_BYTES or any(len(os.fsencode(part)) > MOST_NAME_BYTES for part in parts):
            raise UserError(f"{name[:40]}… is longer than a path or a name may be")
        return parts

    def _resolved(self, name: str, parts: Parts) -> Parts:
        found = resolve(parts, self._links) if self._through_links else parts
        if found is None:
            raise UserError(f"{name} leads out of its folder by a link")
        if len(found) > MOST_DEPTH:
            raise UserError(f"{name[:40]}… lies in more than {MOST_DEPTH} folders")
        return found

    def _count(self, name: str) -> None:
        self._members += 1
        if self._members > self._limits.members:
            raise UserError(f"{name}: there are more than {self._limits.members} files, folders and links")

    def _add(self, name: str, expected: int, written: int) -> None:
        if self._bytes + expected > self._limits.bytes:
            raise UserError(f"{name}: the files are larger than {self._limits.bytes} bytes together")
        self._bytes += written

    @contextmanager
    def _opened(self, name: str, parts: Parts, *, make: bool = True) -> Iterator[int]:
        """A descriptor of the folder. Raises FileNotFoundError unless it is to be made."""
        descriptor = os.dup(self._descriptor)
        try:
            for depth, part in enumerate(parts, 1):
                try:
                    if make and not _is_there(descriptor, part):
                        os.mkdir(part, 0o755, dir_fd=descriptor)
                    inner = os.open(part, _FOLDER, dir_fd=descriptor)
                except NotADirectoryError:
                    raise UserError(f"{name} lies below {'/'.join(parts[:depth])}, a file or link") from None
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    def _remove(self, folder: int, parts: Parts) -> None:
        if _is_folder(folder, parts[-1]):
            shutil.rmtree(parts[-1], dir_fd=folder)
            self._links = {one: to for one, to in self._links.items() if one[: len(parts)] != parts}
        elif _is_there(folder, parts[-1]):
            os.unlink(parts[-1], dir_fd=folder)
            self._links.pop(parts, None)


def resolve(parts: Parts, links: dict[Parts, str]) -> Parts | None:
    """Where a path leads by these links, as the kernel would resolve it; None: out of the tree.

    Of links that lead round in a circle, the last path: the kernel refuses it.
    """
    found: list[str] = []
    ahead = list(reversed(parts))
    hops = 0
    while ahead:
        part = ahead.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not found:
                return None
            found.pop()
            continue
        target = links.get((*found, part))
        if target is None or hops == MOST_HOPS:
            found.append(part)
            continue
        hops += 1
        if target.startswith("/"):
            return None
        ahead.extend(reversed(target.split("/")))
    return tuple(found)


def _is_there(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_folder(folder: int, name: str) -> bool:
    return _is_there(folder, name) and stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def end_of(path: Path, most_bytes: int = 1 << 16) -> str:
    """The last bytes of a file as text; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - most_bytes))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
