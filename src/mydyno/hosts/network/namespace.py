"""Network namespaces as hosts: created under a name that `ip netns` lists, entered, and removed.

A namespace is kept by a bind mount on a file in /run/netns, as ip-netns(8) does it. That program also mounts the folder
on itself, once, before its first namespace: over namespaces that are there already, which then become unreachable
by their paths. So the same is done here before; it is taken away with the last file, and ip-netns makes it again.

What this host's kernel and programs can do for a private network is tried in a temporary namespace. Queueing
disciplines are modules or built in, and /proc does not list them reliably; so each is tried on an interface of such a
namespace (unshare(1)), which changes nothing outside.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from mydyno.errors import HostError
from mydyno.hosts.cgroups import lines
from mydyno.hosts.root import HERE, HostRoot

PREFIX = "mydyno-"
CLONE_NEWNET = 0x40000000
"""Flag for setns(), from sched.h; os.setns came with Python 3.12."""

_ROLE = re.compile(r"-(server|load)(-\d+)?$")
_FOLDER_LOCK = threading.Lock()
"""Held while the folder, its mount or a name in it changes: namespaces are made and removed in several threads."""

T = TypeVar("T")


def namespace_path(study: str, role: str, number: int = 1, root: HostRoot = HERE) -> Path:
    """Where a study's namespace of a role ("server", "load") is kept; that of the first server has no number."""
    return root.netns / f"{PREFIX}{study}-{role}{'' if number == 1 else f'-{number}'}"


def study_of(path: Path) -> str:
    """The study in a namespace's name."""
    return _ROLE.sub("", path.name.removeprefix(PREFIX))


def make_namespace(path: Path, root: HostRoot = HERE) -> None:
    """Make an empty namespace and keep it at the path. Write it to the undo journal before. Raises HostError."""
    with _FOLDER_LOCK:
        _make_namespace(path, root)


def _make_namespace(path: Path, root: HostRoot) -> None:
    taken = HostError(f"the network namespace {path.name} exists already", "mydyno clean removes it")
    if path.exists():
        raise taken
    root.netns.mkdir(parents=True, exist_ok=True)
    if not _mounts(root):
        root.command(["mount", "--bind", str(root.netns), str(root.netns)])
        root.command(["mount", "--make-rshared", str(root.netns)])
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        raise taken from None
    root.command(["unshare", f"--net={path}", "true"])
    root.command([*entering(path), "ip", "link", "set", "dev", "lo", "up"])


def remove_namespace(facts: dict[str, Any], root: HostRoot = HERE) -> str | None:
    """Undo a change of the kind `namespace`; returns what remains, or None. Touches only names of mydyno's own."""
    with _FOLDER_LOCK:
        return _remove_namespace(Path(facts["path"]), facts.get("interfaces", ()), root)


def _remove_namespace(path: Path, interfaces: Iterable[str], root: HostRoot) -> str | None:
    if path.parent != root.netns or not path.name.startswith(PREFIX):
        return f"{path}, which is no namespace of mydyno's"
    if not path.exists():
        return None
    for interface in interfaces:
        # Now, and not when the kernel gets to it: the other end of a pair may be looked at next.
        root.call([*entering(path), "ip", "link", "delete", "dev", interface])
    if not _unmount(path, root):
        return f"the network namespace {path.name}"
    try:
        path.unlink(missing_ok=True)
    except OSError:
        left = _uncover(path, root)
        if left is not None:
            return left
    _leave_folder(root)
    return None


def _mounts(root: HostRoot) -> int:
    """How often the folder is mounted: twice if two programs did it at the same time. os.path.ismount misses a folder
    that is mounted on itself.
    """
    return sum(line.split()[4] == str(root.netns) for line in lines(root.proc / "self/mountinfo"))


def _unmount(path: Path, root: HostRoot) -> bool:
    while os.path.ismount(path):  # Path.is_mount sees no mounts on files
        if root.call(["umount", "--lazy", str(path)]).returncode:
            return False
    return True


def _uncover(path: Path, root: HostRoot) -> str | None:
    """Remove a namespace that is covered by a mount of the folder on itself; returns what remains, or None.

    The cover holds copies of all namespaces of that time. It is removed only if it holds no namespace of another
    program.
    """
    for own in root.netns.glob(f"{PREFIX}{study_of(path)}-*"):
        _unmount(own, root)
    root.call(["umount", str(root.netns)])
    try:
        if _unmount(path, root):
            path.unlink(missing_ok=True)
            return None
    except OSError:
        pass
    return (
        f"the network namespace {path.name}: {root.netns} is mounted over it (ip netns add did that) and holds other "
        "namespaces; remove it with mydyno clean after those are removed, or reboot this host"
    )


def _leave_folder(root: HostRoot) -> None:
    """Remove the folder, with its mount on itself, if it holds no namespace."""
    with contextlib.suppress(OSError):
        if not any(root.netns.iterdir()):
            for _ in range(_mounts(root)):
                root.call(["umount", str(root.netns)])
            root.netns.rmdir()


def stale_namespaces(root: HostRoot = HERE) -> list[Path]:
    """Every namespace with mydyno's prefix, of any study."""
    return sorted(root.netns.glob(f"{PREFIX}*"))


def entering(path: Path) -> list[str]:
    """The command that enters a namespace and executes what follows, under the same process id."""
    return ["nsenter", f"--net={path}", "--"]


def inside(path: Path | None, action: Callable[[], T]) -> T:
    """Call a function inside a network namespace (None: the current one). A socket opened there belongs to it.

    In a thread of its own that ends afterwards, so that no other thread is ever moved. Raises what the action raises,
    and OSError where the namespace cannot be entered.
    """
    if path is None:
        return action()
    results: list[T] = []
    errors: list[BaseException] = []

    def act() -> None:
        try:
            _enter(path)
            results.append(action())
        except BaseException as error:  # raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _enter(path: Path) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if library.setns(descriptor, CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, f"{os.strerror(number)}: cannot enter {path}")
    finally:
        os.close(descriptor)


PROGRAMS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
    "umount": "mount",
}
TRIALS = {"tbf": "tbf rate 1gbit burst 128kb latency 10ms", "htb": "htb", "netem": "netem delay 1ms"}


@dataclass(frozen=True)
class NetworkCapabilities:
    """What can be done here."""

    namespaces: bool
    veth: bool
    disciplines: frozenset[str]
    missing: str
    """Why nothing can be done at all, with a remedy; empty if something can."""

    def obstacle(self, *, bandwidth: bool, latency: bool) -> str | None:
        """Why a link with these properties cannot be made here; None if it can."""
        if self.missing:
            return self.missing
        if not self.veth:
            return "this kernel has no veth (CONFIG_VETH); load the module or use a kernel with it"
        if bandwidth and "tbf" not in self.disciplines:
            return "this kernel has no tbf for shaping (CONFIG_NET_SCH_TBF); load sch_tbf or use a kernel with it"
        if latency and "netem" not in self.disciplines:
            return (
                "this kernel has no netem to add latency with (CONFIG_NET_SCH_NETEM); "
                "load sch_netem, use a kernel with it, or omit latency"
            )
        return None


def programs_obstacle(root: HostRoot = HERE) -> str | None:
    """Why no network can be changed here at all; None if the rights and the programs are there."""
    if not root.is_root:
        return "changing the network needs root; run mydyno as root"
    absent = [program for program in PROGRAMS if root.which(program) is None]
    packages = ", ".join(sorted({PROGRAMS[program] for program in absent}))
    return f"{', '.join(absent)} not on PATH: needs {packages}" if absent else None


@cache
def network_capabilities(root: HostRoot = HERE) -> NetworkCapabilities:
    """Tried once per process."""
    missing = programs_obstacle(root)
    if missing is not None:
        return NetworkCapabilities(False, False, frozenset(), missing)
    lines = ["echo namespaces", "ip link add name dyno0 type veth peer name dyno1 && echo veth"]
    lines += [
        f"tc qdisc add dev lo root {words} && echo {name} && tc qdisc del dev lo root" for name, words in TRIALS.items()
    ]
    done = root.call(["unshare", "--net", "sh", "-c", "\n".join(lines)])
    return read_means(done.stdout, done.stderr)


def read_means(output: str, errors: str) -> NetworkCapabilities:
    """From the trial's output: one word a line for each thing that went well."""
    words = set(output.split())
    if "namespaces" not in words:
        return NetworkCapabilities(
            False, False, frozenset(), f"this kernel or container cannot create network namespaces: {errors.strip()}"
        )
    return NetworkCapabilities(True, "veth" in words, frozenset(words & set(TRIALS)), "")
