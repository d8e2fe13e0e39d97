"""Servers without a process, and the state that they share with the load and the counters."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from mydyno.errors import ServerError
from mydyno.hosts.local import LocalHost
from mydyno.model.stored.records import ServerRecord
from mydyno.servers.running.base import ClientPath, CpuSlot, RunningServer
from mydyno.servers.sql import Address
from mydyno.store.samples import Sample
from tests.support.fake_script import Script

STARTED_UNIX_NS = 1_800_000_000_000_000_000
"""Start of the fake host's clock, if the real one is not later."""


class FakeInstance(RunningServer):
    """A server without a process; what it counts is the script's."""

    def __init__(self, bench: Bench, folder: Path, log: Path, number: int, cpu_slot: CpuSlot) -> None:
        super().__init__(bench.host, folder, log, number=number, cpu_slot=cpu_slot)
        self.bench = bench
        self.arm, self.copy = "", 1

    @property
    def pid(self) -> int:
        return 4710 + self.number

    def address(self, user: str = "dyno", database: str = "") -> Address:
        return Address(user=user, password=b"secret-word", socket=f"/nowhere/{self.number}", database=database)

    def ensure_client_path(self) -> ClientPath:
        raise AssertionError("fake arms have no treatment of the load's path")

    def probe_target(self) -> str:
        return f"{self.number}:{self.pid}"

    async def counters(self) -> dict[str, float]:
        reads = self.bench.reads.get(self.number, 0.0)
        reads *= self.bench.script.counted_share(self.number)
        return {"Questions": reads, "Com_select": self.bench.script.counted(int(reads))}

    async def start(self) -> None:
        self.bench.script.events.append("start")
        words = self.bench.script.start_error(self.arm, self.copy)
        if words:
            raise ServerError(words)

    async def stop(self) -> str | None:
        self.bench.script.events.append("stop")
        return None

    async def record(self) -> ServerRecord:
        variables = {"innodb_buffer_pool_size": "1073741824", "innodb_flush_log_at_trx_commit": "1"}
        return ServerRecord(
            instance=self.number,
            place=self.cpu_slot.number,
            version="10.11.19-MariaDB",
            variables=variables,
            pid=self.pid,
        )


@dataclass
class Bench:
    """The state of the fake world, which all fakes share."""

    script: Script
    host: LocalHost
    clock_ns: int = field(default_factory=lambda: max(STARTED_UNIX_NS, time.time_ns()))
    reads: dict[int, float] = field(default_factory=dict)
    """{instance: what was read from it}."""
    count: int = 1
    """Instances of the present run."""
    sampled: list[Sample] = field(default_factory=list)
    instances: dict[int, FakeInstance] = field(default_factory=dict)
