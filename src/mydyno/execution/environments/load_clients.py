"""The client hosts of a block, as its runs use them: an agent of dynoload on each, and a sampler of each host.

Another host's monotonic clock is known from the times of its samples and those of their arrival. The least difference
of all samples is what the clocks differ by, and what a line needs to arrive: some milliseconds, of samples of one
second.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Protocol

from mydyno import clock
from mydyno.drivers.base import Agent
from mydyno.execution.environments.probe import INTERVAL_MS, Sampler
from mydyno.hosts.network.load_end import LoadEnd
from mydyno.store.samples import Sample


class FarSamples:
    """The samples of dynoprobe on one host, read as its lines arrive."""

    def __init__(self, scope_of: Callable[[str, str], str]) -> None:
        """`scope_of`: a sample's scope by that of the host and the metric; empty: it is dropped."""
        self._scope_of = scope_of
        self._samples: list[Sample] = []
        self._behind_ns: int | None = None
        """What is to be added to its monotonic time for this host's Unix time; None before the first sample."""

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._samples)

    def take(self, line: str) -> dict[str, Any]:
        """A line arrives now; its record, empty for noise."""
        try:
            record: dict[str, Any] = json.loads(line)
        except ValueError:
            return {}
        if record.get("record") == "sample":
            monotonic_ns = int(record["monotonic_ns"])
            late_ns = clock.unix_ns() - monotonic_ns
            self._behind_ns = late_ns if self._behind_ns is None else min(self._behind_ns, late_ns)
            self._samples += [
                Sample(monotonic_ns, scope, name, float(value))
                for there, metrics in record["metrics"].items()
                for name, value in metrics.items()
                if (scope := self._scope_of(there, name))
            ]
        return record

    def ours(self) -> list[Sample]:
        """The samples so far, on this host's clock."""
        behind_ns = self._behind_ns or 0
        return [replace(sample, unix_ns=sample.unix_ns + behind_ns) for sample in self._samples]


CLIENT_SCOPE = "client"
"""Scope of the samples of a client host: client:NAME."""


BUSY = ("cpu_user_pct", "cpu_system_pct")
"""What adds up to the use of all CPUs of a host."""


def busy_pct(samples: Sequence[Sample], windows_ns: Sequence[tuple[int, int]]) -> dict[str, float]:
    """{client: CPU of its host in percent of all its CPUs}, the mean over samples that end within a window."""
    busy: dict[tuple[str, int], float] = {}
    for sample in samples:
        scope, _, name = sample.scope.partition(":")
        if scope != CLIENT_SCOPE or sample.metric not in BUSY:
            continue
        if any(begin < sample.unix_ns <= end for begin, end in windows_ns):
            busy[name, sample.unix_ns] = busy.get((name, sample.unix_ns), 0.0) + sample.value
    names = dict.fromkeys(name for name, _ in busy)
    return {name: round(fmean(value for (own, _), value in busy.items() if own == name), 1) for name in names}


def busy_client_words(samples: Sequence[Sample], windows_ns: Sequence[tuple[int, int]], bound: float) -> list[str]:
    """Sentences on client hosts whose CPUs were full while they loaded; `bound` is a share of 1."""
    return [
        f"client {name} was {percent:.0f} % busy while it loaded (bound {bound:.0%}): it may be the limit"
        for name, percent in busy_pct(samples, windows_ns).items()
        if percent > 100 * bound
    ]


class ClientSampler(Protocol):
    """dynoprobe on one client host, for one run."""

    name: str
    """Name of the client host."""

    async def start(self) -> None:
        """Begin to sample. Raises HostError if the host is lost."""

    def so_far(self) -> list[Sample]:
        """The host's own metrics, in the scope client:NAME, on this host's clock."""

    async def stop(self) -> list[str]:
        """End it; returns warnings."""


class LoadClients(Protocol):
    """The client hosts of a block."""

    address: str
    """Address of the server's host on the network that carries the load."""

    @property
    def ends(self) -> tuple[LoadEnd, ...]:
        """The network of each client host."""

    @property
    def agents(self) -> tuple[Agent, ...]:
        """One for each client host."""

    def samplers(self) -> list[ClientSampler]:
        """New samplers of one run, one for each client host, not yet started."""

    def check(self) -> None:
        """Raises HostError if a client host was lost, or its agent ended unasked: no result of an arm."""


class SamplerWithClients:
    """The sampler of a run whose load comes from client hosts: that of the server's host, and one on each client."""

    def __init__(self, own: Sampler, clients: Sequence[ClientSampler]) -> None:
        self._own = own
        self._clients = tuple(clients)

    async def start(self, interval_ms: int = INTERVAL_MS) -> None:
        """Begin to sample everywhere."""
        await self._own.start(interval_ms)
        await asyncio.gather(*(client.start() for client in self._clients))

    def send(self, command: str) -> None:
        """To the sampler of the server's host."""
        self._own.send(command)

    async def speed(self) -> tuple[int, int] | None:
        """The speed meter of the server's host; clients have none."""
        return await self._own.speed()

    def newest(self) -> Mapping[str, Mapping[str, float]]:
        """The newest sample of the server's host."""
        return self._own.newest()

    def so_far(self) -> list[Sample]:
        """All hosts' samples."""
        return [*self._own.so_far(), *(sample for client in self._clients for sample in client.so_far())]

    async def stop(self) -> list[str]:
        """End all of them."""
        words = await asyncio.gather(self._own.stop(), *(client.stop() for client in self._clients))
        return [one for some in words for one in some]

    def samples(self) -> tuple[list[Sample], list[str]]:
        """Everything sampled; after stop()."""
        found, warnings = self._own.samples()
        return [*found, *(sample for client in self._clients for sample in client.so_far())], warnings

    def unsampled(self) -> Mapping[str, str]:
        """What the sampler of the server's host could not read."""
        return self._own.unsampled()
