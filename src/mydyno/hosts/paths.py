"""The folders of mydyno on this host, resolved once from the environment."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from mydyno import __version__
from mydyno.errors import HostError
from mydyno.hosts.lock import ADDRESS

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
    """The unprivileged user that servers run as when mydyno is root; None: as the present user."""
    allow_writes: bool = False
    """Whether an external server may be written to."""
    study_lock_address: str = ADDRESS
    """Of the lock that a study holds on this host."""

    @property
    def undo(self) -> Path:
        """Undo journals of studies that run or were killed."""
        return self.cache / "undo"

    @classmethod
    def resolve(cls, data: Path | None = None, allow_writes: bool = False) -> HostPaths:
        """From MYDYNO_CACHE, MYDYNO_DATA, MYDYNO_ENGINE, MYDYNO_SERVER_USER, MYDYNO_TEST_STUDY_LOCK.

        Raises HostError if the server's user does not exist.
        """
        cache = cache_folder()
        return cls(
            cache=cache,
            data=(data or Path(os.environ.get("MYDYNO_DATA") or cache / "data")).resolve(),
            engine=_engine_folder(cache),
            server_user=_server_user(),
            allow_writes=allow_writes,
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


def _engine_folder(cache: Path) -> Path:
    """Of MYDYNO_ENGINE, else of the package mydyno-engine, else the newest that the bootstrap built."""
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
    """The cache: MYDYNO_CACHE, else mydyno in the user's own cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("MYDYNO_CACHE") or Path(base) / "mydyno").resolve()


def _server_user() -> str | None:
    if os.geteuid() != 0:
        return None
    name = os.environ.get("MYDYNO_SERVER_USER", "nobody")
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise HostError(f"MYDYNO_SERVER_USER={name}: no such user", "name an existing unprivileged user") from None
    if entry.pw_uid == 0:
        raise HostError(f"MYDYNO_SERVER_USER={name} is root; servers never run as root")
    return name
