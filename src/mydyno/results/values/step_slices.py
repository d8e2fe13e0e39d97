"""The slices of a saved study, checked against the runs that they are of; those of one step as arrays: their lanes and
cycles, and the covariates that show the host's speed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mydyno.errors import UserError
from mydyno.model.stored.records import RunRecord, SliceRecord
from mydyno.stats.slices import LEFT_FOR, Array, Groups, before_and_after
from mydyno.store.samples import SLICES_FILE, read_slices
from mydyno.store.study_folder import StudyFolder

Lane = tuple[int, str, int]
"""(block, arm, copy)"""


@dataclass
class StepSlices:
    """The slices of one step that are used, in arrays of one length."""

    slices: list[SliceRecord]
    groups: Groups
    before: NDArray[np.str_]
    """The arms of the LEFT_FOR slices before each (n × LEFT_FOR), used or not; empty where there is none."""
    covariates: dict[str, Array] = field(default_factory=dict)


def lane_of(one: SliceRecord) -> Lane:
    """The lane that a slice belongs to."""
    return (one.block, one.arm, one.copy_number)


LEAST_AVAILABLE = 0.02
"""Share of the host's CPU time left by hypervisor and other programs; less is taken as this."""
COVARIATES = {"driver_cpu_around": -1.0, "available_cpu_around": 1.0, "speed_around": -1.0}
"""Covariates, of the slices of other arms before and after: {name: the sign of its effect on throughput}. They are the
load program's CPU time per query, the share of CPU time left by hypervisor and other programs, and the speed meter."""


def step_slices(slices: list[SliceRecord], every: Sequence[SliceRecord]) -> StepSlices:
    """Slices of one step with every covariate that all of them have. `every` slice of that step, used or not, shows
    what was loaded before them.
    """
    data = StepSlices(slices, groups_of(slices), _arms_before(slices, every))
    arms = np.array([one.arm for one in slices])
    begin = min((one.started_unix_ns for one in slices), default=0)
    middle_s = np.array([(one.started_unix_ns - begin) / 1e9 + one.length_s / 2 for one in slices])
    for name, values in _own_covariates(slices).items():
        data.covariates[name] = before_and_after(np.log(values), middle_s, arms, data.groups, data.before)
    return data


def _arms_before(slices: Sequence[SliceRecord], every: Sequence[SliceRecord]) -> NDArray[np.str_]:
    latest: dict[int, list[str]] = defaultdict(lambda: [""] * LEFT_FOR)
    before = {}
    for one in sorted(every, key=lambda one: one.started_unix_ns):
        before[one.block, one.started_unix_ns] = latest[one.block]
        latest[one.block] = [one.arm, *latest[one.block][:-1]]
    return np.array([before[one.block, one.started_unix_ns] for one in slices])


def _own_covariates(slices: Sequence[SliceRecord]) -> dict[str, Array]:
    """What the slices themselves show of the host's speed; none of it is free of their arms."""
    found = {}
    cost = [(one.driver_cpu_s or 0.0) / one.done_queries if one.done_queries else 0.0 for one in slices]
    if all(value > 0 for value in cost):
        found["driver_cpu_around"] = np.array(cost)
    if all(one.steal is not None for one in slices):
        taken = np.array([(one.steal or 0.0) + (one.strangers or 0.0) for one in slices])
        found["available_cpu_around"] = np.maximum(1.0 - taken, LEAST_AVAILABLE)
    speeds = [one.speed or 0.0 for one in slices]
    if all(value > 0 for value in speeds):
        found["speed_around"] = np.array(speeds)
    return found


def groups_of(slices: Sequence[SliceRecord]) -> Groups:
    """The index of lane, cycle and block of each slice."""
    lanes = {lane: index for index, lane in enumerate(dict.fromkeys(map(lane_of, slices)))}
    cycles = {key: index for index, key in enumerate(dict.fromkeys((one.block, one.cycle) for one in slices))}
    return Groups(
        np.array([lanes[lane_of(one)] for one in slices], dtype=np.int64),
        np.array([cycles[one.block, one.cycle] for one in slices], dtype=np.int64),
        np.unique([one.block for one in slices], return_inverse=True)[1],
    )


def slices_of(folder: StudyFolder, runs: Sequence[RunRecord], file: str = SLICES_FILE) -> list[SliceRecord]:
    """The slices of these runs' blocks; the measured ones, or those of another file.

    Raises UserError for a damaged file.
    """
    blocks = sorted({run.block for run in runs})
    found = [one for block in blocks for one in read_slices(folder.block_path(block) / file)]
    if file == SLICES_FILE:
        _check_complete(folder, runs, found)
    return found


def _check_complete(folder: StudyFolder, runs: Sequence[RunRecord], slices: Sequence[SliceRecord]) -> None:
    """A file that was cut between two lines shows it by its sums alone."""
    made: dict[tuple[int, str, int, str], float] = defaultdict(float)
    for one in slices:
        made[one.block, one.arm, one.copy_number, one.step] += 0.0 if one.failed else one.done_transactions
    for run in runs:
        for step in run.steps:
            count = round(made[run.block, run.arm, run.copy_number, step.id])
            if count < step.driver.transactions:
                raise UserError(
                    f"{folder.block_path(run.block) / SLICES_FILE} is cut short: it has {count} of "
                    f"{step.driver.transactions} transactions of {run.folder} at {step.id}",
                    "was the study's folder copied completely?",
                )
