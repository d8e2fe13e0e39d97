"""A host that is a folder with `proc`, `sys` and `run`; its programs are a function, and its clock only sleeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from mydyno.hosts.commands import Done
from mydyno.hosts.root import HostRoot
from mydyno.hosts.tracing import bpftrace

GIB = 1 << 30
Answer = Callable[[list[str]], str | Done]


@dataclass(eq=False)
class FakeHost(HostRoot):
    """A host of two CPUs where mydyno is root, every program is there, and each of them succeeds in silence."""

    folder: Path = Path("/nowhere")
    is_root: bool = True
    cpus: Set[int] = frozenset({0, 1})
    cpu_count: int = 2
    memory_bytes: int = 24 * GIB
    disk_bytes: int = 200 * GIB
    absent: Iterable[str] = ()
    """Programs that are not on PATH."""
    answer: Answer = lambda _: ""
    """What a program prints, or how it ends."""
    ran: list[str] = field(default_factory=list)
    """The commands, in order."""
    slept: list[float] = field(default_factory=list)

    def free_bytes(self, folder: Path) -> int:
        return self.disk_bytes

    def which(self, program: str) -> str | None:
        return None if program in self.absent else f"/usr/bin/{program}"

    def call(self, argv: Sequence[str], timeout_s: float = 30.0) -> Done:
        self.ran.append(" ".join(argv))
        answered = self.answer(list(argv))
        return Done(argv, 0, answered, "") if isinstance(answered, str) else answered

    def now_s(self) -> float:
        return sum(self.slept)

    def sleep(self, duration_s: float) -> None:
        self.slept.append(duration_s)

    def write(self, path: str, text: str) -> Path:
        """Write a file of the host: "proc/meminfo"."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file


def of_network(network: str, means: str = "") -> FakeHost:
    """A host with this address (ip-address(8)), on which these words are printed by trials of what it can do."""
    address, length = network.split("/")
    shown = json.dumps([{"addr_info": [{"local": address, "prefixlen": int(length)}]}])
    return FakeHost(answer=lambda argv: shown if "address" in argv else means if "unshare" in argv else "")


TRACEPOINTS = {one for path in bpftrace.PROGRAMS.glob("*.bt") for one in bpftrace._needed(path.read_text())}


def tracing_host(folder: Path, *missing: str) -> FakeHost:
    """One on which perf and bpftrace work, and whose kernel lacks these tracepoints."""

    def answer(argv: list[str]) -> str:
        return '"@seen": 7' if "-e" in argv else f"{argv[0]} v0.0" if argv[-1] == "--version" else ""

    made = FakeHost(folder, answer=answer)
    made.write("sys/kernel/tracing/available_events", "\n".join(TRACEPOINTS.difference(missing)))
    return made
