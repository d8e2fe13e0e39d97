"""The client hosts of a block, as its runs use them: an agent of dynoload on each, and a sampler of each host."""

from __future__ import annotations

from typing import Protocol

from mydyno.drivers.base import Agent
from mydyno.store.samples import Sample

CLIENT_SCOPE = "client"
"""Scope of the samples of a client host: client:NAME."""


class ClientSampler(Protocol):
    """dynoprobe on one client host, for one run."""

    name: str
    """Of the client host."""

    async def start(self) -> None:
        """Begin to sample. Raises HostError if the host is lost."""

    def so_far(self) -> list[Sample]:
        """The host's own metrics, in the scope client:NAME, on this host's clock."""

    async def stop(self) -> list[str]:
        """End it; returns warnings."""


class LoadClients(Protocol):
    """The client hosts of a block."""

    address: str
    """Of the server's host, on the network that carries the load."""

    @property
    def agents(self) -> tuple[Agent, ...]:
        """One for each client host."""

    def samplers(self) -> list[ClientSampler]:
        """New samplers of one run, one for each client host, not yet started."""

    def check(self) -> None:
        """Raises HostError if a client host was lost, or its agent ended unasked: no result of an arm."""
