"""The client hosts of a block, as its runs use them: an agent of dynoload on each, and a sampler of each host."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Protocol

from mydyno.drivers.base import Agent
from mydyno.hosts.network.load_end import LoadEnd
from mydyno.store.samples import Sample

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
