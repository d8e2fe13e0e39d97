"""The slices of one step as arrays: their lanes and cycles, and the covariates that show the host's speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mydyno.model.stored.records import SliceRecord
from mydyno.stats.slices import Array, Groups

Lane = tuple[int, str, int]
"""(block, arm, copy)"""


@dataclass
class StepSlices:
    """The slices of one step that are used, in arrays of one length."""

    slices: list[SliceRecord]
    groups: Groups
    covariates: dict[str, Array] = field(default_factory=dict)


def lane_of(one: SliceRecord) -> Lane:
    """The lane that a slice belongs to."""
    return (one.block, one.arm, one.copy_number)


LEAST_AVAILABLE = 0.02
"""Share of the host's CPU time left by hypervisor and other programs; less is taken as this."""
COVARIATES = (("driver_cpu",), ("available_cpu", "unstolen_cpu"), ("speed",))
"""Covariates: in each group the first that no arm changes is used; the last groups are left out where there are few
slices. They are the load program's CPU time per query, the share of CPU time left by hypervisor and other programs, or
by the hypervisor alone, and the speed meter. The first and the last show the host's speed: each sees something that the
other does not (measured: both leave 5 to 10 % less noise than the first alone)."""


def step_slices(slices: list[SliceRecord]) -> StepSlices:
    """Slices of one step with every covariate that all of them have."""
    data = StepSlices(slices, groups_of(slices))
    cost = [(one.driver_cpu_s or 0.0) / one.queries if one.queries else 0.0 for one in slices]
    if all(value > 0 for value in cost):
        data.covariates["driver_cpu"] = np.log(np.array(cost))
    speeds = [one.speed for one in slices]
    if all(value is not None and value > 0 for value in speeds):
        data.covariates["speed"] = np.log(np.array(speeds, dtype=np.float64))
    if all(one.steal is not None for one in slices):
        steal = np.array([one.steal or 0.0 for one in slices])
        strangers = np.array([one.strangers or 0.0 for one in slices])
        data.covariates["available_cpu"] = np.log(np.maximum(1.0 - steal - strangers, LEAST_AVAILABLE))
        data.covariates["unstolen_cpu"] = np.log(np.maximum(1.0 - steal, LEAST_AVAILABLE))
    return data


def groups_of(slices: Sequence[SliceRecord]) -> Groups:
    """The index of lane, cycle and block of each slice."""
    lanes = {lane: index for index, lane in enumerate(dict.fromkeys(map(lane_of, slices)))}
    cycles = {key: index for index, key in enumerate(dict.fromkeys((one.block, one.cycle) for one in slices))}
    return Groups(
        np.array([lanes[lane_of(one)] for one in slices], dtype=np.int64),
        np.array([cycles[one.block, one.cycle] for one in slices], dtype=np.int64),
        np.unique([one.block for one in slices], return_inverse=True)[1],
    )
