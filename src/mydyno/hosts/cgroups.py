"""Control groups, version 1 and 2 alike: where they are mounted, where one can be made, its limits, what it accounted.

A group is made below mydyno's own or an ancestor of it: mounts, other groups and their settings stay as they are. What
version 1 has in one tree per controller is one folder in version 2; callers use version 2's controller names (cpuset,
cpu, io, memory). `root` is / but for tests. Sources: the kernel's admin-guide/cgroup-v1 and cgroup-v2.rst; proc(5),
/proc/PID/mountinfo; cgroups(7), /proc/PID/cgroup.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.identity import ProcessIdentity, end_all
from mydyno.hosts.root import HERE, HostRoot, text_of
from mydyno.model.definition.quantities import numbers_of

NAMES_IN_V1 = {"io": "blkio"}
"""Controllers whose name changed."""


@dataclass(frozen=True)
class Mount:
    """A mounted hierarchy."""

    place: Path
    group: str
    """The group that is mounted there: in a container often its own instead of the hierarchy's root."""

    def below(self, own: str) -> Path:
        """The folder of a group; the mount itself where the group is not visible there."""
        way = os.path.relpath(own, self.group)
        inside = self.place / way
        return inside if not way.startswith("..") and inside.is_dir() else self.place


def mounts(root: Path) -> dict[str, Mount]:
    """{v1 controller: its mount}, and "" for version 2."""
    found: dict[str, Mount] = {}
    for line in lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        group, point = (word.replace("\\040", " ") for word in before.split()[3:5])
        kind, _, options = after.split(" ", 2)
        mount = Mount(root / point.lstrip("/"), group)
        if kind == "cgroup2":
            found.setdefault("", mount)
        elif kind == "cgroup":
            for name in options.split(","):
                found.setdefault(name, mount)
    return found


def own_paths(root: Path) -> dict[str, str]:
    """{v1 controller: mydyno's own group}, and "" for version 2."""
    found = {}
    for line in lines(root / "proc/self/cgroup"):
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            found[name] = path
    return found


def lineage(root: Path, controller: str) -> list[Path]:
    """mydyno's own group of this controller and its ancestors, as far as they are mounted; empty without it."""
    mounted, own = mounts(root), own_paths(root)
    name = NAMES_IN_V1.get(controller, controller)
    if name not in mounted:
        name = ""
    if name not in mounted:
        return []
    here = mounted[name].below(own.get(name, "/"))
    return [here, *(folder for folder in here.parents if folder.is_relative_to(mounted[name].place))]


def lines(path: Path) -> list[str]:
    """The file's lines; none where it cannot be read."""
    return text_of(path).splitlines()


def enter(pid: int, folders: Iterable[Path]) -> None:
    """Move a process with all its threads. Raises HostError."""
    for folder in folders:
        try:
            (folder / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            raise HostError(f"process {pid} cannot enter {folder}: {error.strerror}") from error


PERIOD_US = 100_000
REMOVE_TIMEOUT_S = 5.0
SERVICE_BYTES_V1 = "blkio.throttle.io_service_bytes"


@dataclass(frozen=True)
class Limits:
    """What a group may use; None: no limit of that kind."""

    cpus: str | None = None
    """A list such as 0-1,4."""
    cpu_quota: float | None = None
    """CPU seconds per second."""
    read_bps: int | None = None
    write_bps: int | None = None
    read_iops: int | None = None
    write_iops: int | None = None
    memory_high: int | None = None
    device: str | None = None
    """MAJOR:MINOR of the whole disk that the I/O limits are for."""

    @property
    def io(self) -> dict[str, int]:
        """The I/O limits that are set, by version 2's names."""
        pairs = {"rbps": self.read_bps, "wbps": self.write_bps, "riops": self.read_iops, "wiops": self.write_iops}
        return {word: value for word, value in pairs.items() if value is not None}

    @property
    def controllers(self) -> tuple[str, ...]:
        """The controllers that these limits need."""
        needed = {
            "cpuset": self.cpus is not None,
            "cpu": self.cpu_quota is not None,
            "io": bool(self.io),
            "memory": self.memory_high is not None,
        }
        return tuple(name for name, wanted in needed.items() if wanted)


@dataclass(frozen=True)
class Slot:
    """Where groups of one controller can be made."""

    version: int
    parent: Path
    delegated: bool = False
    """Version 2: a group that was delegated to mydyno and holds it; it must be taken by take_delegation() first."""


@dataclass(frozen=True)
class Group:
    """One group: a folder for each controller (one and the same in version 2)."""

    name: str
    slots: Mapping[str, Slot]

    def folder(self, controller: str) -> Path:
        """The controller's folder of this group."""
        return self.slots[controller].parent / self.name

    @property
    def folders(self) -> tuple[Path, ...]:
        """Every folder once."""
        return tuple(dict.fromkeys(self.folder(controller) for controller in self.slots))

    def entering(self) -> list[str]:
        """The command that enters the group, as root, and executes what follows; children are born inside."""
        script = 'while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs" || exit 125; shift; done; shift; exec "$@"'
        return ["/bin/sh", "-c", script, "sh", *map(str, self.folders), "--"]

    def processes(self) -> list[int]:
        """The processes inside, of any of its folders."""
        return sorted({pid for folder in self.folders for pid in _pids(folder)})

    def io_bytes(self, device: str) -> tuple[int, int]:
        """(read, written) bytes that the group was charged for on a device, since it was made."""
        folder = self.folder("io")
        if self.slots["io"].version == 2:
            fields = dict(
                pair.split("=", 1)
                for line in lines(folder / "io.stat")
                if line.startswith(f"{device} ")
                for pair in line.split()[1:]
            )
            return int(fields.get("rbytes", 0)), int(fields.get("wbytes", 0))
        found = {"Read": 0, "Write": 0}
        for line in lines(folder / SERVICE_BYTES_V1):
            words = line.split()
            if len(words) == 3 and words[0] == device and words[1] in found:
                found[words[1]] = int(words[2])
        return found["Read"], found["Write"]

    def throttled(self) -> tuple[int, float] | None:
        """(periods in which the CPU quota was used up, seconds waited); None without a CPU controller."""
        if "cpu" not in self.slots:
            return None
        stat = dict(line.split() for line in lines(self.folder("cpu") / "cpu.stat") if line.count(" ") == 1)
        waited_s = (
            int(stat.get("throttled_usec", 0)) / 1e6
            if self.slots["cpu"].version == 2
            else int(stat.get("throttled_time", 0)) / 1e9
        )
        return int(stat.get("nr_throttled", 0)), waited_s


@dataclass(frozen=True)
class Cgroups:
    """The control groups of a host, as its mounts and mydyno's own membership show them."""

    root: Path = Path("/")

    def slots(self, controllers: Sequence[str]) -> tuple[dict[str, Slot], list[str]]:
        """Where groups with these controllers can be created; for each without one, the reason and a remedy."""
        slots: dict[str, Slot] = {}
        reasons = []
        mounted = mounts(self.root)
        own = own_paths(self.root)
        rest = []
        for controller in controllers:
            name = NAMES_IN_V1.get(controller, controller)
            if name not in mounted:
                rest.append(controller)
                continue
            parent = mounted[name].below(own.get(name, "/"))
            if os.access(parent, os.W_OK):
                slots[controller] = Slot(1, parent)
            else:
                reasons.append(
                    f"cgroup v1 controller {name}: {parent} is not writable; version 1 cannot be delegated: run as root"
                )
        if rest:
            found = self._slot_v2(rest, mounted.get(""), own.get("", "/"))
            if isinstance(found, Slot):
                slots |= dict.fromkeys(rest, found)
            else:
                reasons.append(found)
        return slots, reasons

    def _slot_v2(self, controllers: Sequence[str], mounted: Mount | None, own: str) -> Slot | str:
        """The nearest ancestor of mydyno's own group that enables all these controllers for its children."""
        wanted = ", ".join(controllers)
        if mounted is None:
            return (
                f"no cgroup controller {wanted}: it is mounted in neither version (container without /sys/fs/cgroup?)"
            )
        mount, here = mounted.place, mounted.below(own)
        offered = set(_words(mount / "cgroup.controllers"))
        absent = [name for name in controllers if name not in offered]
        if absent:
            return (
                f"cgroup v2 at {mount} offers {', '.join(sorted(offered)) or 'nothing'}, not {', '.join(absent)}, "
                "and no v1 mount has it; boot with systemd.unified_cgroup_hierarchy=1, or mount the v1 controller"
            )
        for folder in [here, *(parent for parent in here.parents if parent == mount or mount in parent.parents)]:
            if set(controllers) <= set(_words(folder / "cgroup.subtree_control")) and os.access(folder, os.W_OK):
                return Slot(2, folder)
        if here != mount and set(controllers) <= set(_words(here / "cgroup.controllers")) and self.is_delegated(here):
            return Slot(2, here, delegated=True)
        handed = sorted(_words(here / "cgroup.controllers"))
        return (
            f"cgroup v2: no writable group above {here} hands {wanted} to its children (handed down to here: "
            f"{', '.join(handed) or 'none'}); start mydyno in a delegated group: `systemd-run --user --scope -p "
            "Delegate=yes ./mydyno …` with `Delegate=cpu cpuset io memory` in user@.service, or as root `systemd-run "
            "--scope -p Delegate=yes …`"
        )

    def is_delegated(self, folder: Path) -> bool:
        """Whether systemd handed the group over (its mark is an extended attribute), or it belongs to this user."""
        if not os.access(folder, os.W_OK):
            return False
        for name in ("trusted.delegate", "user.delegate"):
            try:
                if os.getxattr(folder, name) == b"1":
                    return True
            except OSError:
                continue
        return os.geteuid() != 0 and folder.stat().st_uid == os.geteuid()

    def memberships(self, pid: int) -> dict[int, dict[str, str]]:
        """{thread: {v1 controller, or "" for version 2: group}} of every thread of a process."""
        found = {}
        for task in sorted((self.root / f"proc/{pid}/task").iterdir()):
            groups = [line.split(":", 2) for line in lines(task / "cgroup")]
            if groups:  # else it has ended meanwhile
                found[int(task.name)] = {name: path for _, names, path in groups for name in names.split(",")}
        return found

    def folders_of(self, pid: int, group: Group) -> tuple[Path, ...]:
        """Where a process is now in the hierarchies of a group."""
        mounted, own = mounts(self.root), self.memberships(pid)[pid]
        names = {"" if slot.version == 2 else NAMES_IN_V1.get(name, name) for name, slot in group.slots.items()}
        return tuple(mounted[name].below(own[name]) for name in sorted(names))

    def make(self, group: Group, limits: Limits) -> None:
        """Make the folders and write the limits; they are in the undo journal already. Raises HostError."""
        for folder in group.folders:
            self._new_folder(folder)
        for path, value in self.settings(group, limits):
            try:
                path.write_text(value)
            except OSError as error:
                raise HostError(
                    f"{path} does not accept {value!r}: {error.strerror}",
                    "check that the CPU exists, the device is a whole disk, and the limit is within that of the parent",
                ) from error

    def _new_folder(self, folder: Path) -> None:
        try:
            folder.mkdir()
        except OSError as error:
            raise HostError(f"the control group {folder} cannot be created: {error.strerror}") from error

    def settings(self, group: Group, limits: Limits) -> list[tuple[Path, str]]:
        """(file, value) for every limit, in the order in which they must be written."""
        made: list[tuple[Path, str]] = []
        if limits.cpus is not None:
            folder = group.folder("cpuset")
            if group.slots["cpuset"].version == 1:
                # A fresh version 1 group has no memory nodes, and takes no process before it has (ENOSPC).
                nodes = _text(folder.parent / "cpuset.effective_mems") or _text(folder.parent / "cpuset.mems")
                made.append((folder / "cpuset.mems", nodes))
            made.append((folder / "cpuset.cpus", limits.cpus))
        if limits.cpu_quota is not None:
            folder, quota_us = group.folder("cpu"), round(limits.cpu_quota * PERIOD_US)
            if group.slots["cpu"].version == 2:
                made.append((folder / "cpu.max", f"{quota_us} {PERIOD_US}"))
            else:
                made += [(folder / "cpu.cfs_period_us", str(PERIOD_US)), (folder / "cpu.cfs_quota_us", str(quota_us))]
        if limits.io:
            folder = group.folder("io")
            if group.slots["io"].version == 2:
                words = " ".join(f"{word}={value}" for word, value in limits.io.items())
                made.append((folder / "io.max", f"{limits.device} {words}"))
            else:
                made += [(folder / _throttle_file(word), f"{limits.device} {n}") for word, n in limits.io.items()]
        if limits.memory_high is not None:
            name = "memory.high" if group.slots["memory"].version == 2 else "memory.limit_in_bytes"
            made.append((group.folder("memory") / name, str(limits.memory_high)))
        return made

    def wrong_settings(self, group: Group, limits: Limits) -> list[str]:
        """The limits that the kernel reports with another value; empty if every limit is in force."""
        wrong = []
        for path, value in self.settings(group, limits):
            reported = lines(path)
            if path.name == "io.max":
                fields = [line.split() for line in reported if line.startswith(f"{limits.device} ")]
                holds = bool(fields) and set(value.split()) <= set(fields[0])
            elif path.name.startswith(("cpuset.cpus", "cpuset.mems")):
                holds = bool(reported) and numbers_of(reported[0]) == numbers_of(value)
            elif path.name in ("memory.high", "memory.limit_in_bytes"):  # counted in pages
                is_number = bool(reported) and reported[0].isdecimal()
                holds = is_number and abs(int(reported[0]) - int(value)) < os.sysconf("SC_PAGE_SIZE")
            else:
                holds = value in reported
            if not holds:
                wrong.append(f"{path.name} is {' / '.join(reported) or 'not readable'}, wanted {value}")
        if limits.cpus is not None:
            name = "cpuset.cpus.effective" if group.slots["cpuset"].version == 2 else "cpuset.effective_cpus"
            effective = _text(group.folder("cpuset") / name)
            if numbers_of(effective) != numbers_of(limits.cpus):
                wrong.append(f"effective CPUs are {effective or 'not readable'}, wanted {limits.cpus}")
        return wrong


OWN_LEAF = "mydyno-self"
"""Where mydyno's own processes go in a group delegated to it: a group with processes has no children with limits."""


def delegated_controllers(folder: Path) -> list[str]:
    """Those of a delegated group that limits may need: of all arms, as it is divided once."""
    present = _words(folder / "cgroup.controllers")
    return [name for name in ("cpuset", "cpu", "io", "memory") if name in present]


def take_delegation(folder: Path, controllers: Sequence[str]) -> None:
    """Move a delegated group's processes into a leaf and hand its controllers to its children. Raises HostError.

    The caller has written it into the undo journal. Only for Slot.delegated; a second call changes nothing.
    """
    try:
        leaf = folder / OWN_LEAF
        leaf.mkdir(exist_ok=True)
        for pid in _pids(folder):
            (leaf / "cgroup.procs").write_text(str(pid))
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))
    except OSError as error:
        raise HostError(f"{folder} is delegated, but cannot be divided: {error}") from error


def return_delegation(folder: Path, controllers: Sequence[str]) -> bool:
    """Undo take_delegation; returns whether everything was restored."""
    if not folder.is_dir():
        return True
    leaf = folder / OWN_LEAF
    try:
        (folder / "cgroup.subtree_control").write_text(" ".join(f"-{name}" for name in controllers))
        for pid in _pids(leaf):
            (folder / "cgroup.procs").write_text(str(pid))
    except OSError:
        return False
    return _removed(leaf)


def remove_group(folders: Iterable[Path], root: HostRoot = HERE) -> list[Path]:
    """End the processes in these groups (all mydyno's own) and remove them; returns those that could not be removed."""
    present = [folder for folder in folders if folder.is_dir()]
    inside = {pid for folder in present for pid in _pids(folder)} - {os.getpid()}
    end_all([identity for pid in sorted(inside) if (identity := ProcessIdentity.of(pid)) is not None], grace_s=3.0)
    deadline = root.now_s() + REMOVE_TIMEOUT_S
    while present:
        present = [folder for folder in present if not _removed(folder)]
        if not present or root.now_s() > deadline:
            break
        root.sleep(0.05)  # the kernel lets go of a process' group shortly after its end
    return present


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _throttle_file(word: str) -> str:
    direction = "read" if word.startswith("r") else "write"
    return f"blkio.throttle.{direction}_{word[1:]}_device"


def _pids(folder: Path) -> list[int]:
    return [int(line) for line in lines(folder / "cgroup.procs") if re.fullmatch(r"\d+", line)]


def _text(path: Path) -> str:
    return "\n".join(lines(path)).strip()


def _words(path: Path) -> list[str]:
    return _text(path).split()
