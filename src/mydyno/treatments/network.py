"""The network between load and server: two network namespaces, a veth pair between them, shaped at both ends.

`network = "1gbit"`, or `network = { bandwidth = "1gbit", latency = "50us" }` where the kernel has netem; with `network
= {}` the pair is as fast as the host. Proved in every run by a timed transfer each way, within 5 % of what Ethernet of
that speed delivers to TCP (941 Mbit/s for 1 Gbit/s; with more than 1 ms of latency it may be slower), and by what tc
reports. If this host's CPUs cannot sustain a bandwidth, the actual one is measured and reported. Needs root. Compare
arms, do not size hosts: namespaces share the host's CPUs, the kernel often charges a packet's processing to its sender,
and a round trip is about 20 µs, that of a real network 100 µs and more. The rate is up to 20 % too high for the
smallest frames.

With `design.kind = "switchback"` (load on this host, `network` in every arm) one link is shaped anew for each arm, and
read back by tc. Its queues are empty then; but the kernel keeps what it learned of a path (ip-tcp_metrics(8)) and
uses it for later connections of any arm.

Where the load comes from other hosts, the network between these hosts is used: packets of the server's port are shaped
on the cards at both ends, or, with `by = "card"`, the speed of the server's own card is set by ethtool (its link is
down for seconds, and the design is "blocks"). Both hosts need root, tc, a kernel with htb and u32 filters (netem for
latency, added in each direction), and cards with the default root queueing discipline.

To an external server (dsn), server.card names this host's card (not a virtual one), whose speed ethtool sets; without
it, `network = {}` measures the link as it is. `latency` is not available.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, TypeAdapter, model_validator

from mydyno.errors import HostError, StudyError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.link import (
    LOAD_INTERFACE,
    SERVER_INTERFACE,
    LinkEnd,
    Shape,
    Transfer,
    addresses_obstacle,
    disciplines,
    give_addresses_back,
    make_link,
    shape_anew,
    shape_link,
    take_addresses,
    timed_transfer,
)
from mydyno.hosts.network.load_end import LoadPath
from mydyno.hosts.network.namespace import entering, make_namespace, namespace_path, network_capabilities
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Frozen, ServerSpec
from mydyno.model.definition.quantities import parse_bits_per_s
from mydyno.model.stored.records import Evidence
from mydyno.servers.running.base import ClientPath, RunningServer
from mydyno.treatments import network_apart, network_external
from mydyno.treatments.base import Treatment
from mydyno.treatments.link_proof import ATTEMPTS, TIMED_ATTEMPTS, is_as_fast_as_requested, judge, transfer_facts

PORT = 3306
LINK_WINDOW_S = 0.3
"""Time in which a transfer over a link of this host is timed: its round trip takes microseconds without latency."""


def _is_bandwidth(text: str) -> str:
    parse_bits_per_s(text)
    return text


Bandwidth = Annotated[str, AfterValidator(_is_bandwidth)]


class NetworkSetting(Frozen):
    """{ bandwidth = "1gbit", latency = "50us" }; both are optional."""

    bandwidth: Bandwidth | None = Field(
        None, description="bandwidth of each direction, as Ethernet of that speed: 100mbit, 1gbit, 2.5gbit, 10gbit"
    )
    latency: Annotated[str, Field(pattern=r"^\d+(\.\d+)?(us|ms|s)$")] | None = Field(
        None, description="latency added to each direction by netem, e.g. 50us"
    )
    by: Literal["shaping", "card"] | None = Field(
        None,
        description="how the bandwidth is set where the load comes from other hosts: shaping (of the server's port, "
        "the default), or card (the speed of the server's network card, by ethtool)",
    )

    @model_validator(mode="after")
    def _card_has_a_speed_only(self) -> Self:
        if self.by == "card" and (self.bandwidth is None or self.latency is not None):
            raise ValueError('by = "card" sets a bandwidth and nothing else: add bandwidth, remove latency')
        return self


SETTING: TypeAdapter[Any] = TypeAdapter(Bandwidth | NetworkSetting)


class NetworkTreatment(Treatment):
    """One arm's network."""

    name = "network"

    def __init__(self, value: str | dict[str, Any]) -> None:
        self.setting = NetworkSetting.model_validate({"bandwidth": value} if isinstance(value, str) else value)
        bits_per_s = None if self.setting.bandwidth is None else parse_bits_per_s(self.setting.bandwidth)
        self._shape = Shape(bits_per_s, self.setting.latency)
        self._ends: tuple[LinkEnd, LinkEnd] | None = None
        self._changes: list[int] = []
        self._server_address: str | None = None
        """While the link is there."""
        self._host: LocalHost | None = None
        self._bare: Transfer | None = None
        self._external: network_external.CardLink | None = None
        self._apart: network_apart.ApartLink | None = None
        self._by_card = self.setting.by == "card"

    @property
    def alone_because(self) -> str:
        """A card has one speed for all servers of its host."""
        return "the speed of a network card is in force for the whole host" if self._by_card else ""

    @property
    def switches(self) -> bool:
        """A link within this host is shaped anew in milliseconds, a card's is down for seconds."""
        return not self._by_card

    @property
    def begins_with_server(self) -> bool:
        """The server listens at its end of the link."""
        return True

    @property
    def lasts(self) -> bool:
        """Queues are empty after a washout, but the kernel keeps a path's metrics for later connections."""
        return True

    @property
    def is_proved_for_one_instance_only(self) -> bool:
        """The facts that a report reads are those of one link."""
        return True

    def obstacle(self, server: ServerSpec) -> str | None:
        """Needs root, a veth pair, and what it is shaped with; to an external server, a network card that can do it."""
        if server.dsn is not None:
            return network_external.obstacle(self._shape, server, self.root)
        if self._by_card:
            return 'by = "card" needs the load on other hosts: name them with --hosts (clients of a [[group]])'
        obstacle = network_capabilities(self.root).obstacle(
            bandwidth=self._shape.bits_per_s is not None, latency=self._shape.latency is not None
        )
        return obstacle or addresses_obstacle(self.root)

    def obstacle_apart(self, server: ServerSpec) -> str | None:  # noqa: ARG002 - there is no external one
        """Needs root, tc with htb, or ethtool; the cards and the other hosts are examined in rehearse_apart()."""
        return network_apart.obstacle(self._shape, self._by_card, self.root)

    def host_changes_apart(self, server: ServerSpec) -> list[str]:  # noqa: ARG002
        """Shaping of a port on both hosts, or the card's speed."""
        return network_apart.host_changes(self._shape, self._by_card)

    def host_changes(self, server: ServerSpec) -> list[str]:
        """Two namespaces and a pair of interfaces inside them for the time of a run; of an external server, the card.

        The card's speed is set where server.card names one.
        """
        if server.dsn is not None:
            return [] if server.card is None else network_external.host_changes(self._shape, server.card)
        return [
            "two network namespaces for each server (mydyno-STUDY-server, mydyno-STUDY-load) with a veth pair between "
            "them, created for each run and removed after it; no interface of the host is changed"
        ]

    async def get(self, paths: HostPaths, host: LocalHost) -> dict[str, str]:  # noqa: ARG002
        """Nothing to fetch."""
        self._host = host
        return {}

    async def rehearse_apart(self, path: LoadPath) -> None:
        """Examine the cards and the programs of all hosts."""
        await network_apart.examine(path, self._shape, self._by_card)

    async def apply(self, instance: RunningServer) -> None:
        """Create the link, shape it (the first is measured before), and run the server and the load at its ends."""
        if not instance.is_private:
            self._external = network_external.CardLink(self._shape, instance)
            await self._external.apply()
            return
        if instance.load_path is not None:
            self._apart = network_apart.ApartLink(self._shape, self._by_card, instance, instance.load_path)
            await self._apart.apply()
            return
        host = instance.host
        self._host = host
        server_address, load_address = await asyncio.to_thread(take_addresses, self.root)
        self._server_address = server_address
        number = instance.number
        suffix = "" if number == 1 else f"-{number}"
        server = LinkEnd(
            namespace_path(host.cookie, "server", number, self.root), SERVER_INTERFACE + suffix, server_address
        )
        load = LinkEnd(namespace_path(host.cookie, "load", number, self.root), LOAD_INTERFACE + suffix, load_address)
        for end in (server, load):
            self._changes.append(
                host.undo.will_change("namespace", path=str(end.namespace), interfaces=[end.interface])
            )
            await asyncio.to_thread(make_namespace, end.namespace, self.root)
        await asyncio.to_thread(make_link, server, load, self.root)
        instance.settings.link = self._ends = (server, load)
        try:
            async with host.timing:
                if host.bare_link is None:
                    host.bare_link = await self._transfer(server, load)
                self._bare = host.bare_link
        except HostError as error:  # this run is lost, others may still be made
            raise StudyError(error.message, "the host may be too busy to time a transfer") from error
        await asyncio.to_thread(shape_link, self._ends, self._shape, self.root)
        settings = instance.settings
        settings.wrappers.append(entering(server.namespace))
        settings.interface = server.interface
        settings.variables.update({"skip_networking": "OFF", "bind_address": server.address, "port": PORT})
        settings.client_path = ClientPath(server.address, PORT, load.address, load.namespace)

    async def switch_on(self, instance: RunningServer) -> None:
        """Shape the link that the first arm made."""
        self._ends, self._bare = instance.settings.link, instance.host.bare_link
        if self._ends is None:
            raise HostError("network: only a link within this host is switched", 'use design.kind = "interleaved"')
        await asyncio.to_thread(shape_anew, self._ends, self._shape, self.root)

    async def switch_off(self, instance: RunningServer) -> None:
        """The next arm shapes the link anew."""

    async def in_force(self, instance: RunningServer) -> Evidence:
        """tc's description of both ends."""
        assert self._ends is not None
        found = [await asyncio.to_thread(disciplines, end, self.root) for end in self._ends]
        holds = all(map(self._shape.is_in_force, found))
        wanted = ", ".join(filter(None, (self.setting.bandwidth, self.setting.latency))) or "no shaping"
        text = f"tc reports {found} at the ends of the link, wanted {wanted}"
        return Evidence(treatment=self.name, holds=holds, text=text, instance=instance.number)

    async def _transfer(self, source: LinkEnd, destination: LinkEnd) -> Transfer:
        """One timed transfer, made again where a busy host let none be timed. Raises HostError."""
        for attempt in range(TIMED_ATTEMPTS):
            try:
                return await asyncio.to_thread(self.timed, source, destination)
            except OSError as error:
                if attempt + 1 == TIMED_ATTEMPTS:
                    words = f"no data arrive from {source.interface} at {destination.interface}: {error}"
                    raise HostError(words) from error
        raise AssertionError("unreachable")

    def timed(self, source: LinkEnd, destination: LinkEnd) -> Transfer:
        """Send for a moment from one end to the other. Raises OSError."""
        window_s = self._shape.window_s(LINK_WINDOW_S)
        return timed_transfer(source.namespace, destination.namespace, destination.address, window_s)

    async def evidence(self, instance: RunningServer) -> Evidence:
        """A timed transfer each way, and tc's description of both ends."""
        outside = self._external or self._apart
        if outside is not None:
            evidence = await outside.evidence()
            return evidence.model_copy(update={"facts": {"bandwidth": self.setting.bandwidth, **evidence.facts}})
        assert self._ends is not None and self._bare is not None
        server, load = self._ends
        try:
            async with instance.host.timing:
                down = await self._best(server, load)
                up = await self._best(load, server)
            shaped = await asyncio.to_thread(lambda: [disciplines(end, self.root) for end in (server, load)])
        except HostError as error:
            return Evidence(treatment=self.name, holds=False, text=error.message, instance=instance.number)
        bare = self._bare.bits_per_s
        proof = judge(self._shape, bare, down, up)
        is_shaped = all(map(self._shape.is_in_force, shaped))
        text = (
            proof.text if is_shaped else f"{proof.text}; not as requested: tc reports {shaped} at the ends of the link"
        )
        facts = {
            "bandwidth": self.setting.bandwidth,
            **transfer_facts(self._shape, bare, [down], [up], proof.reached),
            "server_end": f"{server.interface} {server.address}",
            "load_end": f"{load.interface} {load.address}",
            "disciplines": shaped,
        }
        holds = proof.holds and is_shaped
        return Evidence(treatment=self.name, holds=holds, text=text, facts=facts, instance=instance.number)

    async def _best(self, source: LinkEnd, destination: LinkEnd) -> Transfer:
        """The first of several transfers that is within the tolerance, else the fastest.

        A receiver that had to wait for a CPU finds megabytes in its buffer and seems fast; a link that is not shaped
        is fast every time.
        """
        found: list[Transfer] = []
        while len(found) < ATTEMPTS:
            found.append(await self._transfer(source, destination))
            if is_as_fast_as_requested(self._shape, found[-1]):
                return found[-1]
        return max(found, key=lambda transfer: transfer.bits_per_s)

    async def undo(self) -> None:
        """Remove the namespaces, and with them the pair and all that was put on it."""
        outside = self._external or self._apart
        if outside is not None:
            await outside.undo()
        for number in reversed(self._changes):
            if self._host is not None:
                await asyncio.to_thread(self._host.undo.undo, number)
        self._changes = []
        if self._server_address is not None:
            give_addresses_back(self._server_address)
            self._server_address = None
