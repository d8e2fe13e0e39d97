"""The unprivileged user that servers run as when mydyno is root.

Each process of mydyno takes ids for this that no account, no process and no other mydyno of this host has: no other
program can then signal or trace its servers, or read what they write. The ids need no entry in /etc/passwd.
"""

from __future__ import annotations

import atexit
import fcntl
import grp
import os
import pwd
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from mydyno.errors import HostError
from mydyno.files.atomic import Owner
from mydyno.hosts.identity import ProcessIdentity, end_all
from mydyno.hosts.root import HERE, HostRoot

VARIABLE = "MYDYNO_SERVER_USER"
SHARED_USER = "nobody"
"""Where there are no ids of our own."""
OWN_IDS = range(60578, 61184)
"""Left unused between those of accounts and of systemd's services (https://systemd.io/UIDS-GIDS/)."""
LOCKS = "run/mydyno-users.lock"
"""An empty file below /, where only root writes. The byte at an id's number is locked while it is used (fcntl(2))."""


def ids_of(user: str) -> Owner:
    """The ids of an account, or of our own; see server_user(). Raises KeyError if there is no such account."""
    if is_own(user):
        return int(user), int(user)
    entry = pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid


def is_own(user: str) -> bool:
    """Whether these are ids of our own, not an account."""
    return user.isdecimal() and int(user) in OWN_IDS


@cache
def own_user(root: HostRoot = HERE, ids: Sequence[int] = OWN_IDS) -> str | None:
    """A user and group id for this process alone, until it ends; None where this host has none to take."""
    try:
        locks = os.open(root.folder / LOCKS, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    used = ids_in_use(root)
    for number in random.sample(ids, len(ids)):
        free = number not in used and not _is_account(number) and _is_mapped(number, root)
        if free and _hold(locks, number):
            atexit.register(end_processes, str(number), root)
            return str(number)
    os.close(locks)
    return None


def server_user(own: Callable[[], str | None] = own_user) -> str | None:
    """The name in MYDYNO_SERVER_USER, else ids of our own as a number, else nobody; None: the present user, not root.

    Raises HostError if there is no such user.
    """
    if not HERE.is_root:
        return None
    name = os.environ.get(VARIABLE) or own() or SHARED_USER
    try:
        uid, _ = ids_of(name)
    except KeyError:
        raise HostError(f"{VARIABLE}={name}: no such user", "name an existing unprivileged user") from None
    if uid == 0:
        raise HostError(f"{VARIABLE}={name} is root; servers never run as root")
    return name


def ids_in_use(root: HostRoot) -> set[int]:
    """The user and group ids of all processes: real, effective, saved and of the file system (proc_pid_status(5))."""
    return {number for ids in _ids_of_processes(root).values() for number in ids}


def end_processes(user: str | None, root: HostRoot = HERE) -> None:
    """End what still runs with ids of our own: programs that a server started, and that hid from the study's end."""
    if user is None or not is_own(user):
        return
    pids = [pid for pid, ids in _ids_of_processes(root).items() if int(user) in ids]
    end_all([process for pid in pids if (process := ProcessIdentity.of(pid)) is not None])


def _ids_of_processes(root: HostRoot) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for status in root.proc.glob("[0-9]*/status"):
        with suppress(OSError):  # a process that has ended
            lines = status.read_text(errors="replace").splitlines()
            words = [line.split()[1:] for line in lines if line.startswith(("Uid:", "Gid:", "Groups:"))]
            found[int(status.parent.name)] = {int(word) for line in words for word in line}
    return found


def _is_account(number: int) -> bool:
    entries: tuple[Callable[[int], object], ...] = (pwd.getpwuid, grp.getgrgid)
    for entry_of in entries:
        with suppress(KeyError):
            entry_of(number)
            return True
    return False


def _is_mapped(number: int, root: HostRoot) -> bool:
    """Whether a process here can have this id: a user namespace may have few of them (user_namespaces(7))."""

    def maps(path: Path) -> bool:
        try:
            ranges = [line.split() for line in path.read_text().splitlines()]
        except OSError:
            return True  # a kernel without user namespaces
        return any(int(first) <= number < int(first) + int(count) for first, _, count in ranges)

    return all(maps(root.proc / "self" / name) for name in ("uid_map", "gid_map"))


def _hold(locks: int, number: int) -> bool:
    """Lock this byte for the present process, as long as no descriptor of the file is closed. False: another has it."""
    try:
        fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
    except OSError:
        return False
    return True
