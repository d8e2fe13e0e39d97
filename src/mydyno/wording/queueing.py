"""Queues and utilisations in words: whether the counts agree, and which resource is saturated."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.language import agreed
from mydyno.results.why.queueing import HOST_CPUS, LOAD_CPU, SERVER_CPU, ArmQueue
from mydyno.stats.queueing import ClosedLoop, Queue
from mydyno.wording.numbers import percent


def sentences(found: Sequence[ArmQueue]) -> list[str]:
    """Sentences for one step: first arms whose counts disagree, then one for arms with the same saturated resources."""
    suspect = [sentence(one) for one in found if one.queue.disagreement()]
    groups: dict[tuple[str, ...], list[ArmQueue]] = {}
    for one in found:
        if not one.queue.disagreement() and one.utilisations:
            groups.setdefault(one.saturated, []).append(one)
    return suspect + [sentence(of[0]) if len(of) == 1 else _together(saturated, of) for saturated, of in groups.items()]


def _together(saturated: tuple[str, ...], found: Sequence[ArmQueue]) -> str:
    arms, step = ", ".join(one.arm for one in found), found[0].step
    if saturated:
        return f"{arms}, {step}: saturated: {_resources(found)}."
    share, name = max((share, name) for one in found for name, share in one.utilisations.items())
    return f"{arms}, {step}: no resource is saturated; the busiest is {name} at {percent(share)}."


def sentence(one: ArmQueue) -> str:
    """Whether the counts agree, and which resource is saturated."""
    if one.queue.disagreement():
        return f"{one.arm}, {one.step}: SUSPECT. The counts do not agree, so do not use them: {_wrong(one.queue)}."
    if not one.saturated and one.utilisations:
        busiest = max(one.utilisations, key=lambda name: one.utilisations[name])
        return (
            f"{one.arm}, {one.step}: no resource is saturated; the busiest is {busiest} at "
            f"{percent(one.utilisations[busiest])}."
        )
    return f"{one.arm}, {one.step}: saturated: {_resources([one])}."


def _resources(found: Sequence[ArmQueue]) -> str:
    """The saturated resources, which these arms have in common; of the host's CPUs with what used them."""
    return ", ".join(
        _used_by(found) if name == HOST_CPUS else name for name in found[0].saturated
    )  # fmt: skip


def _used_by(found: Sequence[ArmQueue]) -> str:
    others = [one.others for one in found]
    if any(one is None for one in others):
        return HOST_CPUS
    mean = {name: sum(one.utilisations[name] for one in found) / len(found) for name in (SERVER_CPU, LOAD_CPU)}
    return (
        f"CPUs of the host (server {percent(mean[SERVER_CPU])}, load program {percent(mean[LOAD_CPU])}, others "
        f"{percent(sum(one or 0.0 for one in others) / len(others))})"
    )


def _wrong(queue: Queue | ClosedLoop) -> str:
    """Why the counts cannot all be right, as a clause."""
    if isinstance(queue, ClosedLoop):
        one = queue.middle
        facts = {
            "rate": one.transactions / one.length_s,
            "time": 1000.0 * one.response_s,
            "under_way": one.in_system,
            "connections": queue.connections,
            "resolution": queue.resolution,
        }
        if queue.disagreement() == "many":
            return agreed(
                (
                    "{rate:.4g} transactions/s × {time:.4g} ms = {under_way:.3g} under way, but there are "
                    "{connections} connections (resolution ±{resolution:.2g})"
                ).format(**facts)
            )
        return agreed(
            (
                "{rate:.4g} transactions/s × {time:.4g} ms = {under_way:.3g} under way, but {connections} "
                "connections always have one (resolution ±{resolution:.2g}); response times lack the "
                "transactions that had not ended when their interval did, or transactions were not counted"
            ).format(**facts)
        )
    if queue.disagreement() == "service":
        return "the mean response time is shorter than the mean service time, which is a part of it"
    if queue.disagreement() == "busy":
        return (
            f"throughput × service time is {queue.in_service:.3g} busy connections, but there are {queue.connections}"
        )
    return f"{queue.transactions:,} transactions ended, but only about {queue.due:,.0f} were due"
