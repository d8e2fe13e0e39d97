"""A fake control group tree of either version in a temporary folder: it answers as the kernel where that matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mydyno.hosts.cgroups import Cgroups, Group, Limits

DISK = "8:16"


@dataclass(frozen=True)
class FakeCgroups(Cgroups):
    """Cgroups whose new folders get the kernel's files, and whose effective CPUs are `grants` where that says so."""

    grants: str | None = None

    def make(self, group: Group, limits: Limits) -> None:
        super().make(group, limits)
        if limits.cpus is not None:
            name = "cpuset.cpus.effective" if group.slots["cpuset"].version == 2 else "cpuset.effective_cpus"
            (group.folder("cpuset") / name).write_text(self.grants or limits.cpus)

    def member(self, group: Group, pid: int, threads: Sequence[int], outside: Sequence[int] = ()) -> None:
        """Put a process with these threads into the group; those in `outside` stay in the tree's root."""
        for thread in (*threads, *outside):
            task = self.root / f"proc/{pid}/task/{thread}"
            task.mkdir(parents=True)
            path = "/" if thread in outside else f"/{group.name}"
            lines = [f"{number}:{name}:{path}" for number, name in enumerate(("", "cpu", "cpuset", "blkio", "memory"))]
            (task / "cgroup").write_text("\n".join(lines) + "\n")


def version_2(
    root: Path, offered: str = "cpuset cpu io memory pids", handed: str = "cpuset cpu io memory", own: str = "/",
    mounted: str = "/",
) -> Path:  # fmt: skip
    """A host with version 2 alone; gives the mount. `mounted` is the group that is mounted, `own` mydyno's."""
    mount = root / "sys/fs/cgroup"
    mount.mkdir(parents=True)
    _proc(root, f"31 23 0:28 {mounted} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n", f"0::{own}\n")
    (mount / "cgroup.controllers").write_text(offered + "\n")
    (mount / "cgroup.subtree_control").write_text(handed + "\n")
    return mount


def version_1(root: Path, controllers: Sequence[str] = ("cpuset", "cpu", "blkio", "memory"), own: str = "/") -> Path:
    """A host with these version 1 controllers, each with a mount of its own; gives the folder above the mounts."""
    above = root / "sys/fs/cgroup"
    for name in controllers:
        (above / name).mkdir(parents=True)
    if "cpuset" in controllers:
        (above / "cpuset/cpuset.effective_mems").write_text("0\n")
    mounts = "".join(
        f"{n} 31 0:{n} / /sys/fs/cgroup/{name} rw,relatime shared:{n} - cgroup cgroup rw,{name}\n"
        for n, name in enumerate(controllers, 32)
    )
    _proc(root, mounts, "".join(f"{n}:{name}:{own}\n" for n, name in enumerate(controllers, 1)))
    return above


def _proc(root: Path, mounts: str, own: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text("24 23 0:5 / /proc rw,nosuid - proc proc rw\n" + mounts)
    (root / "proc/self/cgroup").write_text(own)
