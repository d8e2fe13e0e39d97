"""The samplers of a run on an external server whose host is reached by SSH: of its host and process, and of this host.

The server's host is the measured one: its metrics have the scope "host", those of its process "instance:1". This
host is where the load comes from, with the scope client:NAME; what its network card carries towards the server stays
in "host", since on the server's host other clients' traffic would be counted too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Mapping
from dataclasses import replace

from mydyno.execution.environments.environment import Sampler
from mydyno.execution.environments.far_clock import FarClock
from mydyno.execution.environments.load_clients import CLIENT_SCOPE
from mydyno.execution.environments.probe import INTERVAL_MS
from mydyno.hosts.remote.ssh import RemoteProcess, SshHost
from mydyno.hosts.telemetry import STATUS, unread_families
from mydyno.store.samples import Sample

END_TIMEOUT_S = 10.0
NETWORK = "network_"


class ExternalSampler:
    """Both samplers as one."""

    def __init__(self, own: Sampler, host: SshHost, program: str, pid: int, data_folder: str) -> None:
        self._own = own
        self._host = host
        self._command = [program, f"--instance=1:{pid}", f"--disk={data_folder}", "--output=-"]
        self._process: RemoteProcess | None = None
        self._reading: asyncio.Task[None] | None = None
        self._samples: list[Sample] = []
        self._words: list[str] = []
        self._ends: list[str] = []
        """Header, footer and first sample of the stream."""
        self._clock = FarClock()

    async def start(self, interval_ms: int = INTERVAL_MS) -> None:
        """Begin to sample on both hosts. Raises HostError if the server's host is lost."""
        await self._own.start(interval_ms)
        self._process = await self._host.start([*self._command, f"--interval-ms={interval_ms}"])
        self._reading = asyncio.create_task(self._read(self._process))

    def send(self, command: str) -> None:
        """To the sampler of this host."""
        self._own.send(command)

    async def speed(self) -> tuple[int, int] | None:
        """No speed meter runs on a server's host that others use."""
        return None

    def newest(self) -> Mapping[str, Mapping[str, float]]:
        """The newest sample of this host."""
        return self._own.newest()

    def so_far(self) -> list[Sample]:
        """The samples of both hosts, on this host's clock."""
        return [*map(_of_load_host, self._own.so_far()), *self._clock.ours(self._samples)]

    async def stop(self) -> list[str]:
        """End both."""
        words = await self._own.stop()
        if self._process is not None and self._reading is not None:
            self._process.close_stdin()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._reading, END_TIMEOUT_S)
        if not self._samples:
            tail = "" if self._process is None else self._process.stderr_tail.strip()[-200:]
            self._words.append(f"no samples came from {self._host.name}: {tail}")
        return [*words, *dict.fromkeys(self._words)]

    def samples(self) -> tuple[list[Sample], list[str]]:
        """Everything sampled; after stop()."""
        own, warnings = self._own.samples()
        return [*map(_of_load_host, own), *self._clock.ours(self._samples)], warnings

    def unsampled(self) -> Mapping[str, str]:
        """On the server's host, and by SQL from here."""
        by_sql = {name: why for name, why in self._own.unsampled().items() if name.startswith(STATUS)}
        return by_sql | {name: why for name, why in unread_families(self._ends).items() if name != "host_speed"}

    async def _read(self, process: RemoteProcess) -> None:
        async for line in process.lines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if record.get("record") in ("header", "footer") or not self._samples:
                self._ends.append(line)
            if record.get("record") == "sample":
                self._take(record)
            elif record.get("record") == "error":
                self._words.append(f"dynoprobe on {self._host.name}: {record.get('family')}: {record.get('message')}")

    def _take(self, record: dict[str, object]) -> None:
        monotonic_ns = int(str(record["monotonic_ns"]))
        self._clock.arrived(monotonic_ns)
        scopes = record["metrics"]
        assert isinstance(scopes, dict)
        for scope, metrics in scopes.items():
            self._samples += [
                Sample(monotonic_ns, scope, name, float(value))
                for name, value in metrics.items()
                if not (scope == "host" and name.startswith(NETWORK))
            ]


def _of_load_host(sample: Sample) -> Sample:
    if sample.scope != "host" or sample.metric.startswith(NETWORK):
        return sample
    return replace(sample, scope=f"{CLIENT_SCOPE}:{socket.gethostname()}")
