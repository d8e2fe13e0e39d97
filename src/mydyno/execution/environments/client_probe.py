"""The sampler of a run whose load comes from client hosts: those of all hosts as one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from mydyno.execution.environments.environment import Sampler
from mydyno.execution.environments.load_clients import ClientSampler
from mydyno.execution.environments.probe import INTERVAL_MS
from mydyno.store.samples import Sample


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
