"""The network to an external server: its bandwidth is that of this host's network card, which ethtool can set.

`server.card` names the card that leads to the server, and with it asks for that: both directions of a wire have one
speed, so this end suffices. The card's state is in the undo journal before it is changed, and given back after each
run. Proved in every run by the speed read back, and by a timed transfer each way over the server's own port (nothing
is started on its host). Without a card nothing is changed: an arm may then only have `network = {}`, measured as it is.
"""

from __future__ import annotations

from typing import Any

from mydyno.errors import HostError, ServerError, StudyError
from mydyno.hosts.network import network_card
from mydyno.hosts.network.link import Shape, Transfer
from mydyno.hosts.root import HostRoot
from mydyno.model.definition.experiment import ServerSpec
from mydyno.model.stored.records import Evidence
from mydyno.servers.dsn import parse_dsn
from mydyno.servers.running.base import RunningServer
from mydyno.servers.transfer_by_sql import timed_transfers
from mydyno.treatments.card_speed import CardSpeed
from mydyno.treatments.client_path import external_obstacle
from mydyno.treatments.link_proof import ATTEMPTS, TIMED_ATTEMPTS, is_as_fast_as_requested, judge, transfer_facts


def obstacle(shape: Shape, server: ServerSpec, root: HostRoot) -> str | None:
    """Why the path to this external server cannot be set up; None if it can."""
    words = external_obstacle(server)
    if words is not None:
        return words
    if shape.latency is not None:
        return "latency needs the server's host too; remove it for an external server (dsn)"
    if shape.bits_per_s is None:
        return None
    host = parse_dsn(server.dsn or "").host
    leads = network_card.interface_towards(host, root)
    if server.card is None:
        return (
            "shaping both directions needs the server's host. For an external server (dsn) the bandwidth is that of "
            f"this host's network card, set by ethtool where server.card names it (to {host} leads "
            f"{leads or 'no interface'}): --set server.card={leads or 'NAME'}; or leave bandwidth out and say "
            "network = {}, which measures the link as it is (docs/guides/network.md)"
        )
    if leads != server.card:
        return f"server.card is {server.card}, but to {host} leads {leads or 'no interface of this host'}"
    return network_card.obstacle(server.card, shape.mbit_per_s, root)


def host_changes(shape: Shape, card: str) -> list[str]:
    """What is changed on this host, for plan."""
    if shape.bits_per_s is None:
        return []
    return [
        f"{card} set to {shape.mbit_per_s} Mb/s by ethtool (its link goes down for seconds; restored after each run)"
    ]


class CardLink:
    """One arm's link to an external server."""

    def __init__(self, shape: Shape, instance: RunningServer) -> None:
        self._shape = shape
        self._instance = instance
        self._bare: Transfer | None = None
        self._speed: CardSpeed | None = None

    async def apply(self) -> None:
        """Measure the link as it is, journal the card's state, set its speed. Raises StudyError if it is refused."""
        if self._shape.bits_per_s is None or self._instance.card is None:
            return
        self._speed = CardSpeed(self._instance.card, self._shape.mbit_per_s, self._instance.undo)
        try:
            self._bare, _ = await timed_transfers(self._instance.address())
            await self._speed.set()
        except HostError as error:  # this run is lost, others may still be made
            raise StudyError(error.message, error.hint) from error

    async def evidence(self) -> Evidence:
        """The speed read back, and a timed transfer each way."""
        address = self._instance.address()
        facts: dict[str, Any] = {
            "side": "load",
            "load_end": self._instance.card or network_card.interface_towards(address.host),
        }
        try:
            down, up = await self._transfers()
            read = None if self._speed is None else await self._speed.read_back()
        except (HostError, ServerError) as error:
            return Evidence(treatment="network", holds=False, text=error.message, facts=facts)
        bare = self._bare.bits_per_s if self._bare else down.bits_per_s
        proof = judge(self._shape, bare, down, up)
        holds, text = proof.holds, proof.text
        facts |= transfer_facts(self._shape, bare, [down], [up], proof.reached)
        if read is not None:
            in_force, words, read_facts = read
            holds, text, facts = holds and in_force, f"{words}; {text}", facts | read_facts
        return Evidence(treatment="network", holds=holds, text=text, facts=facts)

    async def _transfers(self) -> tuple[Transfer, Transfer]:
        """The first pair that is as fast as asked, else the last. Raises ServerError."""
        failed, found = 0, None
        for _ in range(ATTEMPTS):
            try:
                found = await timed_transfers(self._instance.address())
            except ServerError:
                failed += 1
                if failed == TIMED_ATTEMPTS:
                    raise
                continue
            if all(is_as_fast_as_requested(self._shape, one) for one in found):
                break
        assert found is not None, "there are fewer failures than attempts"
        return found

    async def undo(self) -> None:
        """Restore the card's speed."""
        if self._speed is not None:
            await self._speed.restore()
