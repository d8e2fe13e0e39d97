# mypy: disable-error-code="arg-type"
"""Real memcached from Debian's source package, and a made-up history of it that is built in a moment.

The source is had with apt-get from a sources list of its own (deb-src), its headers from libevent-dev, both unpacked in
the cache; nothing is installed. In the history memcached itself is object files; every commit changes cost.c, which
burns CPU time in each answer and is compiled and linked by a commit's build.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mydyno.files.atomic import made_once
from mydyno.hosts.local import LocalHost
from mydyno.packages.debian import KEYRING, DebianPackages, DebianRelease
from mydyno.packages.progress import silent

CONFIGURE = "find . -exec touch -r configure {} + && ./configure -q --disable-extstore"
"""git does not keep times, by which automake tells whether to make its own files again."""
COMMAND = (
    f"{CONFIGURE} && make -s -j$JOBS memcached && mkdir $PREFIX/bin && cp memcached $PREFIX/bin "
    "&& cp memcached-*.o $PREFIX"
)
"""Also keeps the object files, for history()."""
QUICK_COMMAND = (
    "cc -O2 -c cost.c -o cost.o && cc -o memcached objects/*.o cost.o -Wl,--wrap=sendmsg -l:libevent.a -lpthread"
)
COST = """/* What an answer costs beside memcached's own work. */
#define _GNU_SOURCE
#include <sys/socket.h>

ssize_t __real_sendmsg(int, const struct msghdr *, int);

ssize_t __wrap_sendmsg(int socket, const struct msghdr *message, int flags) {{
    for (volatile long left = {turns}; left > 0; left--) {{ }}
    {extra}
    return __real_sendmsg(socket, message, flags);
}}
"""
AUTHOR = {"GIT_AUTHOR_NAME": "Ada Dev", "GIT_AUTHOR_EMAIL": "ada@example.org", "GIT_COMMITTER_NAME": "Ada Dev",
          "GIT_COMMITTER_EMAIL": "ada@example.org"}  # fmt: skip


@dataclass(frozen=True)
class MemcachedSource:
    """Where source and libevent are, and the environment that a build needs to find the latter."""

    folder: Path
    libevent: Path

    @property
    def environment(self) -> dict[str, str]:
        """For server.build.environment."""
        return {"CPATH": str(self.libevent / "include"), "LIBRARY_PATH": str(self.libevent / "lib")}


async def memcached_source(cache: Path) -> MemcachedSource:
    """The unpacked source, in the cache. Raises HostError, and CalledProcessError with apt's words."""
    host = LocalHost("tests", None)
    root = cache / "tests" / "memcached-source"
    async with made_once(root) as aside:
        if not root.is_dir():
            mirror = await DebianRelease("source", cache, host, silent)._mirror()
            _unpack_source(mirror, aside)
            packages = await DebianPackages(cache, host).get(["libevent-dev"])
            library = aside / "libevent/lib"
            library.mkdir(parents=True)
            # The static library alone: what a build is started with later is the host's own libraries.
            shutil.copy(packages.find("usr/lib/*/libevent.a"), library)
            shutil.copytree(packages.find("usr/include/event.h").parent, aside / "libevent/include")
    return MemcachedSource(root / "source", root / "libevent")


def _unpack_source(mirror: str, folder: Path) -> None:
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    apt = folder / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True)
    signed = f"[signed-by={KEYRING}] " if KEYRING.is_file() else ""
    (apt / "sources.list").write_text(f"deb-src {signed}{mirror} {release} main\n")
    own = {"Dir::Etc::SourceList": apt / "sources.list", "Dir::Etc::SourceParts": "/dev/null",
           "Dir::State::Lists": apt / "lists", "Dir::Cache": apt / "cache", "APT::Sandbox::User": "root",
           "Debug::NoLocking": "1"}  # fmt: skip
    command = ["apt-get", "-q", *(word for name, value in own.items() for word in ("-o", f"{name}={value}"))]
    for arguments in (["update"], ["--download-only", "source", "memcached"]):
        subprocess.run([*command, *arguments], cwd=apt, check=True, capture_output=True)
    (archive,) = apt.glob("memcached_*.orig.tar.*")
    (folder / "source").mkdir()
    unpack = ["tar", "xf", archive, "-C", folder / "source", "--strip-components=1", "--no-same-owner"]
    subprocess.run(unpack, check=True)
    shutil.rmtree(apt)


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder; what it printed."""
    environment = {**os.environ, **AUTHOR, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def new_repository(folder: Path) -> Path:
    """An empty repository, with the branch main."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    return folder


def commit(repository: Path, subject: str) -> str:
    """Commit all files; the commit's hash."""
    git(repository, "add", "--all", "--force")
    git(repository, "commit", "--quiet", "--allow-empty", "--message", subject)
    return git(repository, "rev-parse", "HEAD")


@dataclass(frozen=True)
class Change:
    """One commit of a made-up history: what an answer costs from here on, or code that does not compile or run."""

    subject: str
    turns: int | None = None
    """Turns of a loop in each answer, of about a nanosecond each; None: as before."""
    extra: str = ""
    """Further statements in every answer."""


def history(folder: Path, objects: Sequence[Path], changes: Sequence[Change]) -> list[str]:
    """A repository with these commits on top of memcached's object files; their hashes, oldest first."""
    repository = new_repository(folder)
    (repository / "objects").mkdir()
    for path in objects:
        shutil.copy(path, repository / "objects")
    (repository / "memcached.c").write_text("/* Compiled already: objects/. */\n")
    hashes, turns = [], 0
    for number, change in enumerate(changes):
        turns = turns if change.turns is None else change.turns
        text = COST.format(turns=turns, extra=change.extra)
        (repository / "cost.c").write_text(f"/* change {number} */\n{text}")
        hashes.append(commit(repository, change.subject))
    return hashes
