"""The proof of a link: transfers in both directions, compared with Ethernet of the requested speed.

A real network card has that speed for the time of a run: it is set by ethtool, read back, restored.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mydyno.hosts.network import network_card
from mydyno.hosts.network.link import Shape, Transfer
from mydyno.hosts.undo import UndoJournal

TOLERANCE = 0.05
ATTEMPTS = 6
"""Most attempts at a timed transfer whose result is wrong: other load on the CPUs disturbs it."""
TIMED_ATTEMPTS = 3
"""The rate of a transfer in which the receiver waited for a CPU until there was nothing left to time."""
CPU_BOUND = 0.85
STRICT_SHARE = 0.25
"""A cap below this share of what the bare pair delivers must be reached, however busy the CPUs are."""


STRICT_LATENCY_S = 0.001
"""With more, a single connection opens its congestion window too slowly to show the bandwidth, or never that far."""


@dataclass(frozen=True)
class LinkProof:
    """What the transfers prove about a link."""

    holds: bool
    """Whether the link is what the experiment requests, or as fast as this host's CPUs allow."""
    reached: bool
    """Whether it delivers the requested bandwidth; true for a link that is not shaped, or whose latency hides it."""
    text: str


def is_as_fast_as_requested(shape: Shape, transfer: Transfer) -> bool:
    """Whether one direction is within the tolerance; true for a link that is not shaped.

    With a long latency it may be slower.
    """
    expected = shape.payload_bits_per_s
    if expected is None:
        return True
    excess = transfer.bits_per_s / expected - 1
    return excess <= TOLERANCE and (excess >= -TOLERANCE or shape.latency_s > STRICT_LATENCY_S)


def _latency_hides(shape: Shape, bare_bits_per_s: float) -> bool:
    """Whether a single connection may be slower than the link, which tc alone then proves."""
    expected = shape.payload_bits_per_s
    return expected is not None and shape.latency_s > STRICT_LATENCY_S and expected * (1 - TOLERANCE) <= bare_bits_per_s


def transfer_facts(
    shape: Shape, bare_bits_per_s: float, downs: Sequence[Transfer], ups: Sequence[Transfer], reached: bool
) -> dict[str, Any]:
    """What the transfers showed, of several load hosts the least, and the bandwidth where they cannot show it."""
    return {
        "expected_bits_per_s": shape.payload_bits_per_s,
        "link_bits_per_s": shape.payload_bits_per_s if _latency_hides(shape, bare_bits_per_s) else None,
        "to_load_bits_per_s": round(min(one.bits_per_s for one in downs)),
        "to_server_bits_per_s": round(min(one.bits_per_s for one in ups)),
        "bare_bits_per_s": round(bare_bits_per_s),
        "cpu_busy": round(max(one.cpu_busy for one in (*downs, *ups)), 3),
        "reached": reached,
    }


def judge(shape: Shape, bare_bits_per_s: float, down: Transfer, up: Transfer) -> LinkProof:
    """Whether the link is what was requested, by a transfer from the server to the load and one back."""
    both = (
        f"{down.bits_per_s / 1e6:.0f} Mbit/s from server to load, {up.bits_per_s / 1e6:.0f} Mbit/s back "
        "(TCP payload, timed)"
    )
    expected = shape.payload_bits_per_s
    latency = shape.latency and f"{shape.latency} added each way"
    if expected is None:
        return LinkProof(True, True, f"{both}, {latency or 'not shaped'}")
    wanted = f"Ethernet of {(shape.bits_per_s or 0) / 1e6:.0f} Mbit/s delivers {expected / 1e6:.0f}"
    wanted += f", {latency}" if latency else ""
    fastest, slowest = max(down.bits_per_s, up.bits_per_s), min(down.bits_per_s, up.bits_per_s)
    if fastest > expected * (1 + TOLERANCE):
        return LinkProof(False, False, f"{both}: too fast, the shaping does not hold; {wanted}")
    if slowest >= expected * (1 - TOLERANCE):
        return LinkProof(True, True, f"{both}; {wanted}")
    if _latency_hides(shape, bare_bits_per_s):
        return LinkProof(True, True, f"{both}, where the latency limits a single connection; {wanted}")
    if expected > bare_bits_per_s * STRICT_SHARE and max(down.cpu_busy, up.cpu_busy) >= CPU_BOUND:
        return LinkProof(
            True,
            False,
            (
                f"{both}: the bandwidth was not reached ({wanted}); this host's CPUs were {down.cpu_busy:.0%} busy and "
                f"carry {bare_bits_per_s / 1e6:.0f} Mbit/s without any cap, so its CPUs are the limit, not the link"
            ),
        )
    busy = max(down.cpu_busy, up.cpu_busy)
    return LinkProof(
        False, False, f"{both}: more than {TOLERANCE:.0%} too slow, with the CPUs {busy:.0%} busy; {wanted}"
    )


@dataclass
class CardSpeed:
    """One card's; in full duplex."""

    card: str
    mbit_per_s: int
    undo: UndoJournal
    _change: int | None = None
    """Entry in the undo journal; None: not changed."""

    async def set(self) -> None:
        """Journal the card's state and set its speed, unless it has it. Raises HostError."""
        before = await asyncio.to_thread(network_card.card_state, self.card)
        if not self._is_set(before):
            self._change = self.undo.will_change("network_card", **network_card.undo_facts(self.card, before))
            await asyncio.to_thread(network_card.set_speed, self.card, self.mbit_per_s)

    def _is_set(self, state: network_card.CardState) -> bool:
        return (state.speed_mbit_per_s, state.duplex) == (self.mbit_per_s, "full")

    async def read_back(self) -> tuple[bool, str, dict[str, Any]]:
        """(whether it is in force, what ethtool reports, facts). Raises HostError."""
        state = await asyncio.to_thread(network_card.card_state, self.card)
        speed = "an unknown speed" if state.speed_mbit_per_s is None else f"{state.speed_mbit_per_s} Mb/s"
        words = f"ethtool reports {speed}, {state.duplex or 'unknown'} duplex of {self.card}"
        return self._is_set(state), words, {"card": dataclasses.asdict(state)}

    async def restore(self) -> None:
        """Give back what was changed."""
        if self._change is not None:
            await asyncio.to_thread(self.undo.undo, self._change)
            self._change = None
