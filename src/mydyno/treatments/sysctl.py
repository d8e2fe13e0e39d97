"""Settings of the running kernel: `sysctl = { "vm.swappiness" = 1 }`, set before the server starts, then restored.

Each is read back once the server runs: a value that the kernel rounds, clips or ignores makes the run invalid. Names
are those of sysctl(8), or files of /sys/block/DEVICE/queue and /sys/kernel/mm by their path, set in the order of the
file: `"/sys/block/vda/queue/scheduler" = "none"`, `"/sys/kernel/mm/transparent_hugepage/enabled" = "never"`. With a
scheduler the kernel sets the queue's `nr_requests` and `iosched/` anew; they are restored too. Most of net.* belongs to
a network namespace, and this treatment sets the host's: a run of an arm with `network` too is invalid. Needs root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from mydyno.errors import HostError
from mydyno.hosts.facts import nearest_existing
from mydyno.hosts.kernel_settings import IN_SYS, read_setting, write_setting
from mydyno.hosts.root import text_of
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.experiment import FINITE, Scalar, ServerSpec
from mydyno.model.stored.records import Evidence
from mydyno.servers.running.base import RunningServer
from mydyno.treatments.base import Treatment

SETTING: TypeAdapter[Any] = TypeAdapter(
    dict[Annotated[str, Field(pattern=rf"^([a-z0-9_]+(\.[A-Za-z0-9_-]+)+|/sys/{IN_SYS})$")], Scalar], config=FINITE
)
_AT_ONCE = re.compile(
    r"(kernel\.sched_\w+|net\.core\.busy_poll|net\.ipv4\.tcp_(autocorking|limit_output_bytes)) .*"
    r"|/sys/block/[^/]+/queue/(nomerges|nr_requests) .*"
)
"""Settings, with their values, that leave nothing behind. Schedulers that learn (bfq, kyber) do so anew after a switch,
open files keep their read-ahead, and sockets the busy_read that they were made with.
"""
_EXCLUSIVE = {
    "dirty_bytes": "dirty_ratio", "dirty_ratio": "dirty_bytes",
    "dirty_background_bytes": "dirty_background_ratio", "dirty_background_ratio": "dirty_background_bytes",
    "overcommit_kbytes": "overcommit_ratio", "overcommit_ratio": "overcommit_kbytes",
}  # fmt: skip
"""Of vm: to write one sets the other to 0, so the one that is in force is restored."""


class SysctlTreatment(Treatment):
    """Kernel settings of one arm."""

    name = "sysctl"

    def __init__(self, value: dict[str, Scalar]) -> None:
        self._wanted = {name: _text(setting) for name, setting in value.items()}
        self._undo: UndoJournal | None = None
        self._before: dict[Path, tuple[int, str]] = {}
        """{file: (number in the undo journal, value from before)} of what was changed."""

    @property
    def alone_because(self) -> str:
        """They are settings of the whole host."""
        return "kernel settings hold for the whole host, and so for every arm's server"

    @property
    def switches(self) -> bool:
        """The kernel takes each over at once."""
        return True

    @property
    def lasts(self) -> bool:
        """Most change what the kernel keeps: caches, queues, connections, huge pages."""
        return not all(_AT_ONCE.fullmatch(f"{name} {value}") for name, value in self._wanted.items())

    def disk_obstacle(self, data: Path) -> str | None:
        """Settings of a disk that does not hold the data."""
        number = nearest_existing(data.absolute()).stat().st_dev
        below = self.root.sys / f"dev/block/{os.major(number)}:{os.minor(number)}"
        if not below.exists():  # not one disk: btrfs, a network's file system
            return None
        holding = set(_disks(below))
        named = {name.split("/")[3]: name for name in self._wanted if name.startswith("/sys/block/")}
        wrong = [name for disk, name in named.items() if disk not in holding]
        return f"{wrong[0]}: the data are in {data}, which is on another disk" if wrong else None

    def obstacle(self, server: ServerSpec) -> str | None:
        """Root, and a kernel that has each of them and lets them be written."""
        if server.dsn is not None:
            return "an external server (dsn) has a kernel that mydyno cannot configure"
        present = [name for name in self._wanted if not self._comes_with_its_scheduler(name)]
        for name in present:
            if not self._file(name).is_file():
                hint = "ls lists what is there" if name.startswith("/sys/") else "sysctl -a lists what it has"
                return f"this kernel has no {name} ({hint})"
        if not self.root.is_root:
            return "kernel settings need root; run mydyno as root"
        for name in present:
            if not (os.access(self._file(name), os.W_OK) and self._file(name).stat().st_mode & 0o222):
                return f"{name} cannot be written here (a container, or a setting that can only be read)"
        return None

    def host_changes(self, server: ServerSpec) -> list[str]:
        """What is set for the time of a run."""
        del server
        return [
            f"{'' if name.startswith('/sys/') else 'sysctl '}{name} = {value} (restored after each run)"
            for name, value in self._wanted.items()
        ]

    async def apply(self, instance: RunningServer) -> None:
        """Journal and set each. Raises HostError if the kernel refuses a value."""
        self._undo = instance.undo
        for name, value in self._wanted.items():
            path = self._file(name)
            before = read_setting(path)
            if not _same(before, value):
                for file in _to_restore(path):
                    if file not in self._before:
                        before = read_setting(file)
                        self._before[file] = self._undo.will_change("sysctl", path=str(file), before=before), before
                write_setting(path, value, self.root)

    async def switch_on(self, instance: RunningServer) -> None:
        """As before a start."""
        await self.apply(instance)

    async def switch_off(self, instance: RunningServer) -> None:
        """Each as it was before, the last one first."""
        del instance
        for file, (_, before) in reversed(self._before.items()):
            if file.exists() and not _same(read_setting(file), before):
                write_setting(file, before, self.root)

    async def left(self, instance: RunningServer) -> str:
        """Settings that are not as they were before."""
        del instance
        now = {file: read_setting(file) for file in self._before if file.exists()}
        wrong = [f"{file} is {now[file]}, not {before}" for file, (_, before) in self._before.items()
                 if file in now and not _same(now[file], before)]  # fmt: skip
        return ", ".join(wrong)

    async def evidence(self, instance: RunningServer) -> Evidence:
        """Each read back while the server runs."""
        actual: dict[str, str] = {}
        reasons = []
        path = instance.settings.client_path
        for name, value in self._wanted.items():
            try:
                actual[name] = read_setting(self._file(name))
            except HostError as error:
                reasons.append(error.message)
                continue
            if not _same(actual[name], value):
                reasons.append(f"{name} is {actual[name]}, although {value} was written")
            if name.startswith("net.") and path is not None and path.namespace is not None:
                reasons.append(f"{name} is the host's, and the server runs in a network namespace with its own")
        text = "; ".join(reasons) or ", ".join(f"{name} = {now}" for name, now in actual.items()) + " (read back)"
        return Evidence(treatment=self.name, holds=not reasons, text=text, facts=actual, instance=instance.number)

    async def undo(self) -> None:
        """Restore every setting, the last one first."""
        for number, _ in reversed(self._before.values()):
            assert self._undo is not None
            self._undo.undo(number)
        self._before.clear()

    def _file(self, name: str) -> Path:
        if name.startswith("/sys/"):
            return self.root.folder / name[1:]
        return self.root.proc.joinpath("sys", *name.split("."))

    def _comes_with_its_scheduler(self, name: str) -> bool:
        queue, own, _ = name.rpartition("/iosched/")
        return bool(own) and f"{queue}/scheduler" in self._wanted


def _disks(device: Path) -> Iterator[str]:
    """The names of a block device, its disk, and all that it lies on."""
    yield from device.resolve().parts
    for below in device.glob("slaves/*"):
        yield from _disks(below)


def _to_restore(path: Path) -> Iterator[Path]:
    """What is written to have this as before. With a scheduler the kernel sets anew the queue's length, writeback
    throttling, and its own settings.
    """
    if path.name == "scheduler":
        beside = (*path.with_name("iosched").glob("*"), path.with_name("wbt_lat_usec"), path.with_name("nr_requests"))
        yield from (file for file in beside if text_of(file))
    other = _EXCLUSIVE.get(path.name)
    yield path if other is None or read_setting(path) != "0" else path.with_name(other)


def _text(setting: Scalar) -> str:
    return str(int(setting)) if isinstance(setting, bool) else str(setting)


def _same(first: str, second: str) -> bool:
    """Whether two values are equal, ignoring white space: the kernel writes tabs."""
    return first.split() == second.split()
