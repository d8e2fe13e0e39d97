"""The network to an external server: its bandwidth is that of this host's network card, which ethtool can set.

`server.card` names the card that leads to the server, and with it asks for that: both directions of a wire have one
speed, so this end suffices. The card's state is in the undo journal before it is changed, and given back after each
run. Proved in every run by the speed read back, and by a timed transfer each way over the server's own port (nothing
is started on its host). Without a card nothing is changed: an arm may then only have `network = {}`, measured as it is.
"""

from __future__ import annotations

import asyncio
import dataclasses
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
from mydyno.treatments.client_path import external_obstacle
from mydyno.treatments.link_proof import ATTEMPTS, TIMED_ATTEMPTS, is_as_fast_as_requested, judge


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
    return network_card.obstacle(server.card, _mbit_per_s(shape), root)


def host_changes(shape: Shape, card: str) -> list[str]:
    """What is changed on this host, for plan."""
    if shape.bits_per_s is None:
        return []
    return [
        f"{card} set to {_mbit_per_s(shape)} Mb/s by ethtool (its link goes down for seconds; restored after each run)"
    ]


class CardLink:
    """One arm's link to an external server."""

    def __init__(self, shape: Shape, instance: RunningServer) -> None:
        self._shape = shape
        self._instance = instance
        self._bare: Transfer | None = None
        self._change: int | None = None

    async def apply(self) -> None:
        """Measure the link as it is, journal the card's state, set its speed. Raises StudyError if it is refused."""
        if self._shape.bits_per_s is None or self._instance.card is None:
            return
        card, speed = self._instance.card, _mbit_per_s(self._shape)
        try:
            self._bare, _ = await timed_transfers(self._instance.address())
            before = await asyncio.to_thread(network_card.card_state, card)
            if (before.speed_mbit_per_s, before.duplex) == (speed, "full"):
                return
            facts = network_card.undo_facts(card, before)
            self._change = self._instance.undo.will_change("network_card", **facts)
            await asyncio.to_thread(network_card.set_speed, card, speed)
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
            state = await self._state()
        except (HostError, ServerError) as error:
            return Evidence(treatment="network", holds=False, text=error.message, facts=facts)
        bare = self._bare.bits_per_s if self._bare else down.bits_per_s
        proof = judge(self._shape, bare, down, up)
        holds, text = proof.holds, proof.text
        facts |= {
            "expected_bits_per_s": self._shape.payload_bits_per_s,
            "to_load_bits_per_s": round(down.bits_per_s),
            "to_server_bits_per_s": round(up.bits_per_s),
            "bare_bits_per_s": round(bare),
            "cpu_busy": round(max(down.cpu_busy, up.cpu_busy), 3),
            "reached": proof.reached,
        }
        if state is not None:
            facts["card"] = dataclasses.asdict(state)
            reported = "unknown" if state.speed_mbit_per_s is None else f"{state.speed_mbit_per_s} Mb/s"
            text = f"ethtool reports {reported}, {state.duplex or 'unknown'} duplex of {self._instance.card}; {text}"
            holds = holds and (state.speed_mbit_per_s, state.duplex) == (_mbit_per_s(self._shape), "full")
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

    async def _state(self) -> network_card.CardState | None:
        if self._shape.bits_per_s is None or self._instance.card is None:
            return None
        return await asyncio.to_thread(network_card.card_state, self._instance.card)

    async def undo(self) -> None:
        """Restore the card's speed."""
        if self._change is not None:
            await asyncio.to_thread(self._instance.undo.undo, self._change)
            self._change = None


def _mbit_per_s(shape: Shape) -> int:
    return round((shape.bits_per_s or 0) / 1e6)
