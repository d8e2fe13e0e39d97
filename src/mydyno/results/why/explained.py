"""The effects that costs, waits and functions are named with: on throughput, latency, and the server's CPU time."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.model.stored.costs import THROUGHPUT
from mydyno.model.stored.summary import EffectRecord

SERVER_CPU = ("server_cpu_us_per_query", "server_cpu_us_per_transaction")
LATENCY = "latency_"
"""Beginning of the names of metrics of the response time."""


def explained(effects: Sequence[EffectRecord]) -> list[EffectRecord]:
    """Effects that are higher or lower, in their order.

    For an arm at a step with an effect on throughput, that one alone: its latency and its CPU time follow from the same
    changes. Otherwise one effect on latency and one on the server's CPU time.
    """
    shown = [one for one in effects if one.verdict in ("higher", "lower") and one.ratio is not None]
    faster = {_contrast(one) for one in shown if one.metric in THROUGHPUT}
    found: list[EffectRecord] = []
    seen: set[tuple[str, tuple[str, str, str]]] = set()
    for one in shown:
        if one.metric in THROUGHPUT:
            found.append(one)
            continue
        kind = "cpu" if is_of_server_cpu(one) else "latency" if is_of_latency(one) else ""
        if kind and _contrast(one) not in faster and (kind, _contrast(one)) not in seen:
            seen.add((kind, _contrast(one)))
            found.append(one)
    return found


def is_of_server_cpu(one: EffectRecord) -> bool:
    """Whether it is an effect on the server's CPU time."""
    return one.metric in SERVER_CPU


def is_of_latency(one: EffectRecord) -> bool:
    """Whether it is an effect on the response time."""
    return one.metric.startswith(LATENCY)


def _contrast(one: EffectRecord) -> tuple[str, str, str]:
    return one.step, one.arm, one.control
