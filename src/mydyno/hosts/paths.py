"""The folders of mydyno on this host, resolved once from the environment."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mydyno import __version__
from mydyno.errors import HostError
from mydyno.hosts.lock import ADDRESS
from mydyno.hosts.root import HERE, HostRoot
from mydyno.hosts.server_user import server_user

SOCKET_BYTES = 107
"""Longest path of a Unix socket (sun_path, unix(7))."""
SOCKET_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run")
LONGEST_SOCKET = "mydyno-01234567/driver-999/999.sock"
PLAIN = re.compile(r"[\w./+-]+", re.ASCII)
ENGINE_PROGRAMS = ("dynoload", "dynoprobe", "dynomem")


@dataclass(frozen=True)
class HostPaths:
    """Folders and users of this host."""

    cache: Path
    """Downloaded parts, templates, run data; everything that can be recreated."""
    data: Path
    """Templates and the servers' data directories; on the disk that is to be measured."""
    engine: Path
    """The folder of dynoload, dynoprobe and dynomem."""
    server_user: str | None
    """The unprivileged user that servers run as when mydyno is root, see ids_of(); None: as the present user."""
    allow_writes: bool = False
    """Whether an external server may be written to."""
    allow_changes: bool = False
    """Whether variables of an external server may be set."""
    waits: bool = False
    """Whether a study waits for another one on this host to end."""
    study_lock_address: str = ADDRESS
    """Address of the lock that a study holds on this host: an abstract Unix socket."""
    root: HostRoot = HERE

    @property
    def undo(self) -> Path:
        """Undo journals of studies that run or were killed."""
        return self.cache / "undo"

    @classmethod
    def resolve(
        cls, data: Path | None = None, allow_writes: bool = False, allow_changes: bool = False, waits: bool = False
    ) -> HostPaths:
        """From MYDYNO_CACHE, MYDYNO_DATA, MYDYNO_ENGINE, MYDYNO_SERVER_USER, MYDYNO_TEST_STUDY_LOCK.

        Raises HostError if the server's user does not exist.
        """
        cache = cache_folder()
        return cls(
            cache=cache,
            data=(data or Path(os.environ.get("MYDYNO_DATA") or cache / "data")).resolve(),
            engine=_engine_folder(cache),
            server_user=server_user(),
            allow_writes=allow_writes,
            allow_changes=allow_changes,
            waits=waits,
            study_lock_address=f"\0{name}" if (name := os.environ.get("MYDYNO_TEST_STUDY_LOCK")) else ADDRESS,
        )

    def program(self, name: str) -> Path:
        """The path of an engine program. Raises HostError if it is not there."""
        path = self.engine / name
        if not path.is_file():
            raise HostError(
                f"the engine's program {name} is not at {path}",
                f"install mydyno-engine {__version__}, or start mydyno with ./mydyno, which builds the engine",
            )
        return path


def socket_folder(*folders: str) -> Path:
    """A folder for a study's sockets and password files: TMPDIR, or another one where its path is long or not plain.

    A path that is not plain has characters that an option file, a list or a shell could read as others. `folders` are
    tried in place of TMPDIR and SOCKET_FOLDERS. Raises HostError if there is none.
    """
    tried = list(dict.fromkeys(folders or (tempfile.gettempdir(), *SOCKET_FOLDERS)))
    for folder in tried:
        name = os.fsencode(Path(folder) / LONGEST_SOCKET)
        if len(name) <= SOCKET_BYTES and PLAIN.fullmatch(folder) and os.access(folder, os.W_OK | os.X_OK):
            return Path(folder)
    raise HostError(
        f"no folder for Unix sockets: {', '.join(tried)} cannot be written, are too long or not plain",
        f"set TMPDIR to a folder whose path has at most {SOCKET_BYTES - len(LONGEST_SOCKET) - 1} bytes, without spaces",
    )


def check_writable(folder: Path, what: str, access: Callable[[Path, int], bool] = os.access) -> None:
    """Raise HostError if the folder, or what is there of the folders above it, cannot be written. Makes nothing."""
    above = folder.absolute()
    while not os.path.lexists(above):
        above = above.parent
    if not above.is_dir():
        why = f"{above} is not a folder"
    elif not access(above, os.W_OK | os.X_OK):
        read_only = os.statvfs(above).f_flag & os.ST_RDONLY
        why = f"{above} is on a file system that is read-only" if read_only else f"no permission to write to {above}"
    else:
        return
    raise HostError(f"{what} {folder} cannot be written: {why}", "choose another folder; nothing was started")


def _engine_folder(cache: Path) -> Path:
    """The folder in MYDYNO_ENGINE, else that of the package mydyno-engine, else the newest that the bootstrap built."""
    if given := os.environ.get("MYDYNO_ENGINE"):
        return Path(given)
    try:
        # In a checkout there is no such package: the bootstrap builds the engine.
        from mydyno_engine import find_bin

        return Path(find_bin("dynoprobe")).parent
    except (ImportError, FileNotFoundError):
        pass
    built = sorted((cache / "engine").glob("*/.complete"), key=lambda mark: mark.stat().st_mtime)
    return built[-1].parent / "bin" if built else cache / "engine" / "bin"


def cache_folder() -> Path:
    """The cache: MYDYNO_CACHE, else mydyno in the user's own cache folder. Raises HostError without all of these."""
    places = (("MYDYNO_CACHE", ""), ("XDG_CACHE_HOME", "mydyno"), ("HOME", ".cache/mydyno"))
    found = next((Path(value) / below for name, below in places if (value := os.environ.get(name))), None)
    if found is None:
        raise HostError(
            "there is no cache folder: neither HOME nor MYDYNO_CACHE is set", "set MYDYNO_CACHE to a folder"
        )
    cache = found.resolve()
    if ":" in str(cache):
        raise HostError(
            f"the cache folder {cache} has a colon, at which PATH and LD_LIBRARY_PATH are split",
            "set MYDYNO_CACHE to a folder without one",
        )
    return cache
