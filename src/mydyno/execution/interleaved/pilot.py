"""The pilot: a few short slices of the control's two copies, before the first cycle, to estimate the precision.

The two copies are identical, so the pilot contains nothing about any effect. What is expected is computed from the
spread of their log ratios, as for the study's own slices; how much starts differ is not in it, and shows after the
second block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt
from statistics import stdev

from mydyno.model.definition.experiment import DesignSpec
from mydyno.model.definition.looks import TOTAL, Looks
from mydyno.model.stored.records import SliceRecord
from mydyno.results.precision import MOST_PROMISED
from mydyno.stats.power import minimum_blocks, projected_half_width

CYCLES = 5
LONGEST_SLICE_S = 1.0
LONGEST_WASHOUT_S = 0.3
PILOT_EVENT = "pilot"
THROUGHPUT, COST = "throughput", "CPU per query"


@dataclass(frozen=True)
class PilotPlan:
    """What the study that follows will have."""

    blocks: int
    cycles: float
    servers: int
    """Lanes of a block, A′ among them."""
    contrasts: int
    looks: Looks | None
    """None: the study is examined once."""
    slice_s: float
    error_rate: float = TOTAL
    """Error rate of a study without looks."""


def pilot_lengths_s(design: DesignSpec) -> tuple[float, float]:
    """(washout, slice) of the pilot in seconds: no longer than those of the study's own slices."""
    return min(LONGEST_WASHOUT_S, design.washout), min(LONGEST_SLICE_S, design.slice)


def expected_half_widths(slices: Sequence[SliceRecord], control: str, plan: PilotPlan) -> dict[str, float]:
    """{THROUGHPUT, COST: half-width as a fraction} at the study's last look; empty if the pilot shows no spread."""
    pairs = _pairs([one for one in slices if one.arm == control and not one.failed])
    alpha = (plan.looks.alpha_at(plan.blocks) if plan.looks is not None else None) or plan.error_rate
    pilot_slice_s = min(LONGEST_SLICE_S, plan.slice_s)
    found = {}
    for name, ratios in pairs.items():
        if len(ratios) < 3:
            continue
        of_block = stdev(ratios) * sqrt(pilot_slice_s / (plan.slice_s * max(1.0, plan.cycles)))
        width = projected_half_width(of_block, plan.blocks, plan.servers, plan.contrasts, alpha)
        if width is not None:
            found[name] = width
    return found


def _pairs(slices: Sequence[SliceRecord]) -> dict[str, list[float]]:
    """ln(A′ / A) of every cycle."""
    cycles: dict[int, dict[int, SliceRecord]] = {}
    for one in slices:
        cycles.setdefault(one.cycle, {})[one.copy_number] = one
    found: dict[str, list[float]] = {THROUGHPUT: [], COST: []}
    for pair in cycles.values():
        if set(pair) != {1, 2} or any(one.queries == 0 for one in pair.values()):
            continue
        first, second = pair[1], pair[2]
        found[THROUGHPUT].append(log(second.queries / second.length_s) - log(first.queries / first.length_s))
        if first.server_cpu_s and second.server_cpu_s:
            found[COST].append(log(second.server_cpu_s / second.queries) - log(first.server_cpu_s / first.queries))
    return found


def words(expected: dict[str, float], plan: PilotPlan) -> str:
    """One line for the user."""
    if not expected:
        return "pilot: too few slices of the control's two copies to estimate the precision of this study"
    parts = ", ".join(
        f"{f'about ±{100 * width:.1f} %' if width <= MOST_PROMISED else 'more than ±20 %'} of {name}"
        for name, width in expected.items()
    )
    pilot = "pilot of the control against its own copy"
    beyond = "; this does not include differences between starts of a server"
    fewest = plan.looks.first if plan.looks is not None else minimum_blocks(plan.contrasts)
    if plan.blocks < fewest:
        return (
            f"{pilot}: {parts} with {plan.blocks} blocks on this host now, but a verdict needs {fewest} blocks{beyond}"
        )
    return f"{pilot}: intervals of {parts} after {plan.blocks} blocks, on this host now{beyond}"
