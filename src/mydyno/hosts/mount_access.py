"""Lets an unprivileged server enter folders that lie below a closed one (root's home, a private temporary folder).

As root, the server starts in a mount namespace of its own in which each closed ancestor is covered by an empty, open
tmpfs, and the folders that the server needs are bound back at their own paths. Paths stay the same, nobody else sees
the change, and it goes with the process (mount_namespaces(7)).
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Sequence
from pathlib import Path

from mydyno.files.private import Owner


def closed_ancestors(folders: Sequence[Path], user: Owner) -> list[Path]:
    """The topmost ancestors (or the folders themselves) that the user may not enter, without repeats."""
    closed: list[Path] = []
    for folder in folders:
        for ancestor in [*reversed(folder.parents), folder]:
            if not _may_enter(ancestor, user):
                if ancestor not in closed:
                    closed.append(ancestor)
                break
    return closed


def _may_enter(folder: Path, user: Owner) -> bool:
    facts = folder.stat()
    if facts.st_uid == user[0]:
        return bool(facts.st_mode & stat.S_IXUSR)
    if facts.st_gid == user[1]:
        return bool(facts.st_mode & stat.S_IXGRP)
    return bool(facts.st_mode & stat.S_IXOTH)


def entering_command(argv: Sequence[str], folders: Sequence[Path], user: Owner) -> list[str]:
    """argv, wrapped so that the folders can be entered by the user; argv itself where all are open already."""
    folders = [folder.resolve() for folder in folders]
    covers = [cover for cover in closed_ancestors(folders, user) if cover not in folders]
    if not covers:
        return list(argv)
    needed = [folder for folder in folders if any(cover in folder.parents for cover in covers)]
    needed = [folder for folder in needed if not any(other in folder.parents for other in needed)]
    lines = ["set -e"]
    # A covered folder is reached through a descriptor opened before: mount -c keeps /proc/self/fd from being resolved.
    lines += [f"exec {number}<{shlex.quote(str(folder))}" for number, folder in enumerate(needed, 3)]
    lines += [f"mount -t tmpfs -o mode=0755,size=64k mydyno {shlex.quote(str(cover))}" for cover in covers]
    for number, folder in enumerate(needed, 3):
        quoted = shlex.quote(str(folder))
        lines += [f"mkdir -p {quoted}", f"mount -c --bind /proc/self/fd/{number} {quoted}", f"exec {number}<&-"]
    lines.append('exec "$@"')
    return ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", "\n".join(lines), "sh", *argv]
