"""A control group for each server, version 1 or 2: CPUs, CPU quota, disk bandwidth, memory; entered before exec.

- `cpus`: a list such as `"0-5"`; a list of such lists, one for each slot; `"split"`: the host's CPUs divided over the
  run's instances; `"split/4"`: one of four equal parts, by the instance's slot (a host
  with fewer CPUs: each gets one, in turn).
- `cpu_quota`: CPU seconds per second, for instance `1.5`.
- `read_bps`, `write_bps`: bytes per second on the data's disk, for instance `"20M"`.
- `read_iops`, `write_iops`: requests per second on the data's disk.
- `memory_high`: bytes of memory; version 1 has no such bound and gets memory.limit_in_bytes instead.

Proved by every thread's membership and allowed CPUs, the kernel's own reading of each limit, and the bytes that the
group was charged for: the limits do not apply to what the kernel writes back for the server outside of the group.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self
from zlib import crc32

from pydantic import BeforeValidator, Field, TypeAdapter, field_validator, model_validator

from mydyno.errors import HostError
from mydyno.hosts.cgroups import Cgroups, Group, Limits, delegated_controllers, enter, take_delegation
from mydyno.hosts.facts import Disk, disk_of
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.root import text_of
from mydyno.model.definition.experiment import Frozen, ServerSpec
from mydyno.model.definition.quantities import format_bytes, numbers_of, parse_bytes, ranges_of
from mydyno.model.definition.server_options import option_name
from mydyno.model.stored.records import Evidence
from mydyno.servers.running.base import CpuSlot, RunningServer
from mydyno.treatments.base import Treatment
from mydyno.treatments.variable_effects import direct_io

PROOF_S = 4.0
MOST_BYTES = 1 << 30
PAGE = 4096
_COPIED = re.compile(r"copied, ([\d.e+-]+) s")


@dataclass(frozen=True)
class ThrottledTransfer:
    """The result of one direction."""

    direction: str
    size_bytes: int
    took_s: float
    least_s: float
    """The shortest time at the limit."""
    charged_bytes: int
    """What the group was charged for."""

    @property
    def share(self) -> float:
        """The rate as a share of the limit: above 1 it was too fast."""
        return self.least_s / self.took_s if self.took_s > 0 else float("inf")

    def words(self) -> str:
        """For people."""
        return (
            f"direct {self.direction} of {format_bytes(self.size_bytes)} took {self.took_s:.2f} s, "
            f"{self.share:.0%} of the limit's rate"
        )


async def paced_io(host: LocalHost, group: Group, limits: Limits, path: Path) -> list[ThrottledTransfer]:
    """Write and read a file for some seconds each, as far as they are limited. Raises HostError if dd fails.

    By dd(1) with O_DIRECT, so that neither the page cache nor later write-back is in the time; dd's own clock counts.
    A disk that is slower than the limit shows less than the limit, which proves nothing against it.
    """
    rates = (("write", limits.write_bps, limits.write_iops), ("read", limits.read_bps, limits.read_iops))
    found = []
    try:
        for direction, bps, iops in rates:
            if bps is None and iops is None:
                continue
            block, count = _extent(bps, iops)
            if direction == "read":
                # Blocks that were never written are read without the disk.
                await _dd(
                    host, (), ["if=/dev/zero", f"of={path}", "bs=1M", f"count={-(-block * count >> 20)}"], "oflag"
                )
            places = ["if=/dev/zero", f"of={path}"] if direction == "write" else [f"if={path}", "of=/dev/null"]
            before = group.io_bytes(str(limits.device))
            arguments = [*places, f"bs={block}", f"count={count}"]
            took_s = await _dd(host, group.entering(), arguments, "oflag" if direction == "write" else "iflag")
            after = group.io_bytes(str(limits.device))
            index = 1 if direction == "write" else 0
            least_s = max(block * count / bps if bps else 0.0, count / iops if iops else 0.0)
            found.append(ThrottledTransfer(direction, block * count, took_s, least_s, after[index] - before[index]))
    finally:
        path.unlink(missing_ok=True)
    return found


def _extent(bps: int | None, iops: int | None) -> tuple[int, int]:
    """(block size, number of blocks) for about PROOF_S at the limit. Small blocks where requests are counted."""
    if iops is not None:
        pages = min(iops, bps // PAGE if bps else iops)
        return PAGE, max(10, int(pages * PROOF_S))
    assert bps is not None
    block = max(PAGE, min(1 << 20, bps // 20 // PAGE * PAGE))
    return block, max(10, int(min(bps * PROOF_S, MOST_BYTES) / block))


async def _dd(host: LocalHost, entering: Sequence[str], arguments: Sequence[str], flag: str) -> float:
    """The seconds that dd says it took."""
    argv = ["dd", *arguments, f"{flag}=direct", "conv=notrunc"]
    process = await host.start(argv, stdout=asyncio.subprocess.PIPE, entering=entering)
    output, _ = await process.streams.communicate()
    words = output.decode(errors="replace")
    match = _COPIED.search(words)
    if process.exit_code or match is None:
        raise HostError(f"{' '.join(argv)} failed with exit code {process.exit_code}: {words.strip()[-200:]}")
    return float(match[1])


Size = Annotated[int, BeforeValidator(parse_bytes), Field(gt=0, json_schema_extra={"type": ["string", "integer"]})]
SPLIT = "split"
TOLERANCE = 0.10
ESCAPE_FLOOR_BYTES = 16 << 20
"""Bytes that may escape without an error: error log, temporary files, the file system's own journal."""


class CgroupSetting(Frozen):
    """What a group may use; at least one limit."""

    cpus: str | tuple[str, ...] | None = None
    cpu_quota: float | None = Field(None, gt=0)
    read_bps: Size | None = None
    write_bps: Size | None = None
    read_iops: int | None = Field(None, ge=1)
    write_iops: int | None = Field(None, ge=1)
    memory_high: Size | None = None

    @field_validator("cpus")
    @classmethod
    def _readable(cls, value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        for text in (value,) if isinstance(value, str) else value or ():
            word, _, parts = text.partition("/")
            if isinstance(value, str) and word == SPLIT and (parts == "" or (parts.isdigit() and int(parts) > 0)):
                continue
            try:
                known = bool(numbers_of(text))
            except ValueError:
                known = False
            if not known:
                raise ValueError('CPUs such as "0-5,8", "split", "split/4", or a list of CPU lists')
        return value

    @model_validator(mode="after")
    def _has_a_limit(self) -> Self:
        if not self.model_fields_set:
            raise ValueError(f"at least one of {', '.join(type(self).model_fields)}")
        return self


SETTING: TypeAdapter[Any] = TypeAdapter(CgroupSetting)


class CgroupTreatment(Treatment):
    """The control groups of one arm's instances."""

    name = "cgroup"

    def __init__(self, value: dict[str, Any], cgroups: Cgroups = Cgroups()) -> None:  # noqa: B008 - it is frozen
        self.setting = CgroupSetting.model_validate(value)
        self._cgroups = cgroups
        self._made: dict[int, _Made] = {}
        self._host: LocalHost | None = None

    def limits(self, slot: CpuSlot, disk: Disk | None) -> Limits:
        """The setting for one slot, on this host's CPUs and the data's disk."""
        specified = self.setting.model_dump(exclude={"cpus"})
        return Limits(
            cpus=cpus_of(self.setting.cpus, slot, sorted(self.root.cpus)),
            device=None if disk is None else disk.device,
            **specified,
        )

    @property
    def _controllers(self) -> tuple[str, ...]:
        return self.limits(CpuSlot(), None).controllers

    @property
    def _limits_io(self) -> bool:
        return "io" in self._controllers

    def obstacle(self, server: ServerSpec) -> str | None:
        """No controller, no right to make a group, CPUs that are not here."""
        if server.dsn is not None:
            return "an external server (dsn) was started by others; use server.name or server.basedir"
        _, reasons = self._cgroups.slots(self._controllers)
        usable = set(self.root.cpus)
        specified = self.setting.cpus if isinstance(self.setting.cpus, tuple) else (self.setting.cpus or SPLIT,)
        absent = {cpu for text in specified if not text.startswith(SPLIT) for cpu in numbers_of(text)} - usable
        if absent:
            reasons.append(f"CPU {ranges_of(absent)} is not among the usable CPUs of this host ({ranges_of(usable)})")
        return "; ".join(reasons) or None

    def server_obstacle(self, server: ServerSpec) -> str | None:
        """With cgroup v1, a flush method whose writes escape."""
        variables = {option_name(name): str(value) for name, value in server.variables.items()}
        flush = variables.get("innodb_flush_method", "O_DIRECT")
        if not self._limits_io or server.dsn is not None or "O_DIRECT" in flush.upper():
            return None
        slot = self._cgroups.slots(("io",))[0].get("io")
        if slot is None or slot.version != 1:
            return None
        return (
            f"innodb_flush_method = {flush}: cgroup v1 does not limit pages that the kernel writes back later, so "
            "the limits do not apply to writes; set O_DIRECT, or use a host with cgroup v2"
        )

    def disk_obstacle(self, data: Path) -> str | None:
        """Data on a file system without a disk, or whose writes are not charged to a group."""
        if not self._limits_io:
            return None
        try:
            disk_of(data, self._cgroups.root)
        except HostError as error:
            return f"{error.message} ({error.hint})" if error.hint else error.message
        return None

    def host_changes(self, server: ServerSpec) -> list[str]:
        """The groups, made for each run and removed after it."""
        del server
        slots, _ = self._cgroups.slots(self._controllers)
        parents = dict.fromkeys(str(slot.parent) for slot in slots.values())
        return [f"creates control groups mydyno-… below {', '.join(parents)}, and removes them after each run"]

    async def get(self, paths: HostPaths, host: LocalHost) -> dict[str, str]:  # noqa: ARG002
        """Nothing to fetch."""
        self._host = host
        return {}

    @property
    def switches(self) -> bool:
        """A process can change its group; but what it writes later is charged to the one that it was in."""
        return not self._limits_io

    @property
    def lasts(self) -> bool:
        """Memory stays with the group that it was charged to; threads keep to the CPUs whose caches they filled."""
        return self.setting.model_fields_set != {"cpu_quota"}

    async def apply(self, instance: RunningServer) -> None:
        """Make the instance's group, and let the server enter it before it becomes the server."""
        instance.settings.wrappers.insert(0, self._make(instance).group.entering())

    async def switch_on(self, instance: RunningServer) -> None:
        """Move the server into its group."""
        own = f"-{crc32(self.setting.model_dump_json().encode()):x}"  # a server has a group of each arm
        made = self._made.get(instance.number) or self._make(instance, own)
        made.home = made.home or self._cgroups.folders_of(instance.pid, made.group)
        enter(instance.pid, made.group.folders)

    async def switch_off(self, instance: RunningServer) -> None:
        """Move it back."""
        if made := self._made.get(instance.number):
            enter(instance.pid, made.home)

    async def left(self, instance: RunningServer) -> str:
        """Threads that are still in the group."""
        made = self._made.get(instance.number)
        if made is None:
            return ""
        threads = self._cgroups.memberships(instance.pid).values()
        ends = f"/{made.group.name}"
        inside = [own for own in threads if any(own.get(name, "").endswith(ends) for name in made.hierarchies())]
        return f"{len(inside)} threads of the server are in {made.group.name}" if inside else ""

    def _make(self, instance: RunningServer, of_arm: str = "") -> _Made:
        self._host = instance.host
        disk = disk_of(instance.folder, self._cgroups.root) if self._limits_io else None
        limits = self.limits(instance.cpu_slot, disk)
        group, number = make_group(
            self._cgroups, instance.host, f"{instance.host.cookie}-{instance.number}{of_arm}", limits
        )
        return self._made.setdefault(instance.number, _Made(group, limits, number, disk))

    async def evidence(self, instance: RunningServer) -> Evidence:
        """Membership and CPUs of every thread, and every limit as reported by the kernel."""
        made = self._made[instance.number]
        threads = self._cgroups.memberships(instance.pid)
        wrong = self._cgroups.wrong_settings(made.group, made.limits)
        outside = [
            thread
            for thread, groups in threads.items()
            if any(not groups.get(name, "").endswith(f"/{made.group.name}") for name in made.hierarchies())
        ]
        if outside:
            wrong.append(f"{len(outside)} of {len(threads)} threads are outside the group")
        allowed = {_allowed_cpus(instance.pid, thread) for thread in threads} - {None}
        if made.limits.cpus is not None and any(
            numbers_of(str(cpus)) - numbers_of(made.limits.cpus) for cpus in allowed
        ):
            wrong.append(f"threads may run on CPU {' / '.join(sorted(map(str, allowed)))}, wanted {made.limits.cpus}")
        if self._limits_io and made.group.slots["io"].version == 1:
            direct = direct_io(instance.pid)
            if direct.holds is False:
                wrong.append(f"{direct.text}, and cgroup v1 does not limit pages that the kernel writes back later")
        made.begin(instance.pid)
        facts = {
            "place": instance.cpu_slot.number,
            "groups": [str(folder) for folder in made.group.folders],
            "versions": {name: slot.version for name, slot in made.group.slots.items()},
            "threads": len(threads),
            "limits": {name: value for name, value in vars(made.limits).items() if value is not None},
            "disk": made.disk and {"device": made.disk.device, "name": made.disk.name, "type": made.disk.filesystem},
        }
        text = "; ".join(wrong) or f"all {len(threads)} threads inside; {limit_words(made.limits)} (read back)"
        return Evidence(treatment=self.name, holds=not wrong, text=text, facts=facts, instance=instance.number)

    async def account(self, instance: RunningServer) -> Evidence:
        """What the group was charged for against what the server's process moved, and against the limits."""
        made = self._made[instance.number]
        wrong, facts, words = made.end(instance.pid)
        return Evidence(
            treatment=self.name,
            holds=not wrong,
            text="; ".join(wrong or words) or "nothing to account: no I/O limit and no quota",
            facts=facts,
            instance=instance.number,
        )

    async def rehearse(self, host: LocalHost, scratch: Path) -> Evidence | None:
        """A direct write and read inside such a group; None if none is limited. Raises HostError if it fails."""
        if not self._limits_io:
            return None
        disk = disk_of(scratch, self._cgroups.root)
        limits = self.limits(CpuSlot(), disk)
        group, number = make_group(self._cgroups, host, f"{host.cookie}-rehearsal", limits)
        try:
            paced = await paced_io(host, group, limits, scratch / "rehearsal.bin")
        finally:
            host.undo.undo(number)
        wrong = [words for one in paced if (words := _too_fast(one))]
        if wrong:
            raise HostError(f"cgroup limits do not hold here: {'; '.join(wrong)}")
        return Evidence(
            treatment=self.name,
            holds=True,
            text="; ".join(one.words() for one in paced),
            facts={one.direction: vars(one) for one in paced} | {"disk": disk.name},
        )

    async def undo(self) -> None:
        """Remove the groups; what cannot be removed stays in the undo journal."""
        for made in self._made.values():
            if self._host is not None:
                self._host.undo.undo(made.journal_number)
        self._made.clear()


class _Made:
    """One instance's group while it lasts, with the counts at the beginning of the load."""

    def __init__(self, group: Group, limits: Limits, journal_number: int, disk: Disk | None) -> None:
        self.group = group
        self.limits = limits
        self.journal_number = journal_number
        self.disk = disk
        self.home: tuple[Path, ...] = ()
        """Where a server was that is switched in and out."""
        self._begun: tuple[float, tuple[int, int], tuple[int, int] | None, tuple[int, float] | None] | None = None

    def hierarchies(self) -> set[str]:
        """The names under which /proc/PID/cgroup shows the group."""
        names = {"io": "blkio"}
        return {"" if slot.version == 2 else names.get(c, c) for c, slot in self.group.slots.items()}

    def _now(self, pid: int) -> tuple[float, tuple[int, int], tuple[int, int] | None, tuple[int, float] | None]:
        charged = self.group.io_bytes(self.disk.device) if self.disk else (0, 0)
        return time.monotonic(), charged, _moved_bytes(pid), self.group.throttled()

    def begin(self, pid: int) -> None:
        """Note the counts at the first proof."""
        self._begun = self._begun or self._now(pid)

    def end(self, pid: int) -> tuple[list[str], dict[str, Any], list[str]]:
        """(what is wrong, facts, words) of the time since begin()."""
        assert self._begun is not None
        then, now = self._begun, self._now(pid)
        seconds = now[0] - then[0]
        wrong: list[str] = []
        words: list[str] = []
        facts: dict[str, Any] = {"seconds": round(seconds, 3)}
        if now[3] is not None and then[3] is not None:
            facts["throttled_periods"] = now[3][0] - then[3][0]
            facts["throttled_s"] = round(now[3][1] - then[3][1], 3)
            words.append(f"CPU quota used up in {facts['throttled_periods']} periods")
        bounds = (("read", 0, self.limits.read_bps), ("written", 1, self.limits.write_bps))
        for word, index, bound in bounds if self.limits.io else ():
            charged = now[1][index] - then[1][index]
            facts[f"{word}_bytes_charged"] = charged
            moved = None if now[2] is None or then[2] is None else now[2][index] - then[2][index]
            facts[f"{word}_bytes_moved"] = moved
            if moved is not None and moved - charged > max(TOLERANCE * moved, ESCAPE_FLOOR_BYTES):
                wrong.append(
                    f"{format_bytes(moved - charged)} of {format_bytes(moved)} {word} escaped the group (its limits "
                    "did not apply to them)"
                )
            if bound is not None and charged > bound * seconds * (1 + TOLERANCE) + ESCAPE_FLOOR_BYTES:
                wrong.append(f"{word} {format_bytes(charged / seconds)}/s, the limit is {format_bytes(bound)}/s")
            words.append(f"{word} {format_bytes(charged)} inside the group" + (
                "" if moved is None else f" of {format_bytes(moved)} by the process"))  # fmt: skip
        return wrong, facts, words


def make_group(cgroups: Cgroups, host: LocalHost, name: str, limits: Limits) -> tuple[Group, int]:
    """A group, journaled and made; and its number in the undo journal. Raises HostError."""
    slots, reasons = cgroups.slots(limits.controllers)
    if reasons:
        raise HostError("; ".join(reasons))
    group = Group(f"mydyno-{name}", slots)
    for slot in dict.fromkeys(slots.values()):
        if slot.delegated:
            controllers = delegated_controllers(slot.parent)
            host.undo.will_change("cgroup_delegation", folder=str(slot.parent), controllers=controllers)
            take_delegation(slot.parent, controllers)
    number = host.undo.will_change("cgroup", folders=[str(folder) for folder in group.folders])
    cgroups.make(group, limits)
    return group, number


def cpus_of(specified: str | tuple[str, ...] | None, slot: CpuSlot, usable: list[int]) -> str | None:
    """The CPUs of one slot. Where there are fewer CPUs than parts, a run's instances take them in turn."""
    if specified is None:
        return None
    if isinstance(specified, tuple):
        return specified[(slot.number - 1) % len(specified)]
    word, _, count = specified.partition("/")
    if word != SPLIT:
        return specified
    parts = int(count) if count else len(slot.taken)
    index = (slot.number - 1) % parts if count else slot.rank - 1
    if len(usable) < parts:
        return str(usable[(slot.rank + min(slot.taken)) % len(usable)])
    return ranges_of(usable[index * len(usable) // parts : (index + 1) * len(usable) // parts])


def limit_words(limits: Limits) -> str:
    """The limits as text."""
    words = [f"CPU {limits.cpus}"] if limits.cpus is not None else []
    words += [f"quota {limits.cpu_quota:g} CPUs"] if limits.cpu_quota is not None else []
    for word, value in (("read", limits.read_bps), ("write", limits.write_bps)):
        words += [f"{word} at most {format_bytes(value)}/s"] if value is not None else []
    for word, value in (("reads", limits.read_iops), ("writes", limits.write_iops)):
        words += [f"at most {value} {word}/s"] if value is not None else []
    words += [f"memory at most {format_bytes(limits.memory_high)}"] if limits.memory_high is not None else []
    return ", ".join(words)


def _too_fast(paced: ThrottledTransfer) -> str:
    if paced.share > 1 + TOLERANCE:
        return f"{paced.words()}: more than {TOLERANCE:.0%} above the limit"
    if paced.charged_bytes < paced.size_bytes * (1 - TOLERANCE):
        return f"{paced.words()}: only {format_bytes(paced.charged_bytes)} of {format_bytes(paced.size_bytes)} charged"
    return ""


def _allowed_cpus(pid: int, thread: int) -> str | None:
    lines = text_of(Path(f"/proc/{pid}/task/{thread}/status")).splitlines()  # none where it has ended
    return next((line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:")), None)


def _moved_bytes(pid: int) -> tuple[int, int] | None:
    """(read, written) bytes of the process at the storage layer (/proc/PID/io); None if it cannot be read."""
    fields = dict(line.split(": ") for line in text_of(Path(f"/proc/{pid}/io")).splitlines())
    if not fields:
        return None
    return int(fields["read_bytes"]), int(fields["write_bytes"]) - int(fields["cancelled_write_bytes"])
