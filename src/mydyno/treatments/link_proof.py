"""The proof of a link: transfers in both directions, compared with Ethernet of the requested speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mydyno.hosts.network.link import Shape, Transfer

TOLERANCE = 0.05
ATTEMPTS = 6
"""Most attempts at a timed transfer whose result is wrong: other load on the CPUs disturbs it."""
TIMED_ATTEMPTS = 3
"""The rate of a transfer in which the receiver waited for a CPU until there was nothing left to time."""
CPU_BOUND = 0.85
STRICT_SHARE = 0.25
"""A cap below this share of what the bare pair delivers must be reached, however busy the CPUs are."""


@dataclass(frozen=True)
class LinkProof:
    """What the transfers prove about a link."""

    holds: bool
    """Whether the link is what the experiment requests, or as fast as this host's CPUs allow."""
    reached: bool
    """Whether it delivers the requested bandwidth; true for a link that is not shaped."""
    text: str


def is_as_fast_as_requested(shape: Shape, transfer: Transfer) -> bool:
    """Whether one direction is within the tolerance; true for a link that is not shaped."""
    expected = shape.payload_bits_per_s
    return expected is None or abs(transfer.bits_per_s / expected - 1) <= TOLERANCE


def transfer_facts(
    shape: Shape, bare_bits_per_s: float, downs: Sequence[Transfer], ups: Sequence[Transfer], reached: bool
) -> dict[str, Any]:
    """What the transfers showed, of several load hosts the least."""
    return {
        "expected_bits_per_s": shape.payload_bits_per_s,
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
    if expected is None:
        return LinkProof(True, True, f"{both}, not shaped")
    wanted = f"Ethernet of {(shape.bits_per_s or 0) / 1e6:.0f} Mbit/s delivers {expected / 1e6:.0f}"
    fastest, slowest = max(down.bits_per_s, up.bits_per_s), min(down.bits_per_s, up.bits_per_s)
    if fastest > expected * (1 + TOLERANCE):
        return LinkProof(False, False, f"{both}: too fast, the shaping does not hold; {wanted}")
    if slowest >= expected * (1 - TOLERANCE):
        return LinkProof(True, True, f"{both}; {wanted}")
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
