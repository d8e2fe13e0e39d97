"""The slices of a study in which something is counted or profiled: their number, and what that cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import log
from typing import Protocol

from mydyno.model.stored.obstacles import Alarm
from mydyno.model.stored.records import SliceRecord
from mydyno.model.stored.slices_apart import SlicesApart
from mydyno.stats.paired import paired


class Facts(Protocol):
    """What a run's record states of such slices of one step."""

    @property
    def slices(self) -> int:
        """How many there were."""

    @property
    def missing(self) -> str:
        """Why some are missing; empty: none is."""


def slices_apart(
    facts: Sequence[Facts], slices: Sequence[SliceRecord], apart: Sequence[SliceRecord], alarm: Alarm
) -> SlicesApart:
    """The summary for a whole study. `slices`: the measured ones; `apart`: those that it is about."""
    cost = paired(_slowdowns(slices, apart))
    return SlicesApart(
        slices=sum(one.slices for one in facts),
        throughput_ratio=cost.ratio,
        throughput_low=cost.interval.low,
        throughput_high=cost.interval.high,
        alarm=alarm,
        missing=tuple(dict.fromkeys(one.missing for one in facts if one.missing)),
    )


def _slowdowns(slices: Sequence[SliceRecord], apart: Sequence[SliceRecord]) -> list[float]:
    """For each block the mean log ratio of slices apart to the measured ones before and after them."""
    measured = {
        (one.block, one.step, one.arm, one.copy_number, one.cycle): log(one.transactions / one.length_s)
        for one in slices
        if one.transactions and not one.failed
    }
    found: dict[int, list[float]] = defaultdict(list)
    for one in apart:
        around = [
            rate
            for cycle in (one.cycle, one.cycle + 1)
            if (rate := measured.get((one.block, one.step, one.arm, one.copy_number, cycle))) is not None
        ]
        if around and one.transactions:
            found[one.block].append(log(one.transactions / one.length_s) - sum(around) / len(around))
    return [sum(of_block) / len(of_block) for of_block in found.values()]
