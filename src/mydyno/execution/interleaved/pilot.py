"""The pilot: the precision to expect, from the first cycles of a study's first block.

What is expected is computed from the residuals of the logarithms after the means of every lane and of every cycle have
been taken out: they contain nothing about any effect. How much starts differ is not in them, and shows after the second
block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from mydyno.model.definition.plan import InterimAnalyses
from mydyno.model.definition.specs import TOTAL
from mydyno.model.stored.records import SliceRecord
from mydyno.stats.power import minimum_blocks, projected_half_width
from mydyno.stats.twoway import two_way
from mydyno.wording.numbers import half_width_text

FEWEST_DEGREES = 8
"""Degrees of freedom after which the pilot states a precision (its sd is then known to a quarter)."""
PILOT_EVENT = "pilot"
THROUGHPUT, COST = "throughput", "CPU per query"


@dataclass(frozen=True)
class PilotPlan:
    """What the study that follows will have."""

    blocks: int
    cycles: float
    servers: int
    """Lanes of a block, copies among them."""
    contrasts: Mapping[str, int]
    """{THROUGHPUT, COST: for how many contrasts of equal weight the interval is simultaneous}."""
    looks: InterimAnalyses | None
    """None: the study is examined once."""
    copies: int = 1
    """Of a treated arm."""
    error_rate: float = TOTAL
    """Error rate of a study without looks."""


def is_enough(cycles: int, lanes: int) -> bool:
    """Whether so many cycles of so many lanes are enough for a pilot."""
    return (cycles - 1) * (lanes - 1) >= FEWEST_DEGREES


def expected_half_widths(slices: Sequence[SliceRecord], plan: PilotPlan) -> dict[str, float]:
    """{THROUGHPUT, COST: half-width as a fraction} at the study's last look, from the slices of one step of one block;
    empty if they show no spread.
    """
    alpha = (plan.looks.alpha_at(plan.blocks) if plan.looks is not None else None) or plan.error_rate
    found = {}
    for name, residual_sd in _residual_sds(slices).items():
        of_block = sqrt(2.0 / max(1.0, plan.cycles)) * residual_sd
        width = projected_half_width(of_block, plan.blocks, plan.servers, plan.contrasts[name], alpha, plan.copies)
        if width is not None:
            found[name] = width
    return found


def _residual_sds(slices: Sequence[SliceRecord]) -> dict[str, float]:
    """The sd of a slice's ln(queries per second) and ln(CPU per query); without a degree of freedom there is none."""
    complete = [one for one in slices if not one.failed and one.queries > 0]
    lanes = sorted({(one.arm, one.copy_number) for one in complete})
    cycles = sorted({one.cycle for one in complete})
    values = {THROUGHPUT: [one.done_queries / one.length_s for one in complete]}
    if all(one.server_cpu_s for one in complete):
        values[COST] = [(one.server_cpu_s or 0.0) / one.done_queries for one in complete]
    found = {}
    for name, measured in values.items():
        table = np.full((len(cycles), len(lanes)), np.nan)
        for one, value in zip(complete, measured, strict=True):
            table[cycles.index(one.cycle), lanes.index((one.arm, one.copy_number))] = log(value)
        if sd := two_way(table, range(len(lanes))).sd:
            found[name] = sd
    return found


def words(expected: dict[str, float], plan: PilotPlan) -> str:
    """One line for the user."""
    if not expected:
        return "pilot: too few slices in the first block to estimate the precision; the second block shows it"
    parts = ", ".join(f"about {half_width_text(width)} of {name}" for name, width in expected.items())
    pilot = "pilot (the first cycles)"
    beyond = "; this does not include differences between blocks"
    fewest = plan.looks.first if plan.looks is not None else minimum_blocks(max(plan.contrasts.values()))
    if plan.blocks < fewest:
        return (
            f"{pilot}: {parts} with {plan.blocks} blocks on this host now, but a verdict needs {fewest} blocks{beyond}"
        )
    return f"{pilot}: intervals of {parts} after {plan.blocks} blocks, on this host now{beyond}"
