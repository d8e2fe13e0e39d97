"""From observations to blocks: which log values a contrast has, which blocks are lost, and whether an arm failed.

A failure of the arm in a block in which the control did not fail, or of the control in one in which the arm did not, is
a result: the contrast then has no ratio, because a ratio of the blocks that survived would leave out the worst ones.
Blocks lost for any other reason (a validity check, a cycle dropped for all arms, both failed) are left out and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, log
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mydyno.errors import BugError
from mydyno.model.stored.reasons import NOTHING_SERVED, ArmFailure
from mydyno.stats.contrast import LogBlock, LogBlocks
from mydyno.stats.groups import without_lone_blocks
from mydyno.verdicts.effect import Family, Observation

NO_REASON = "the run is invalid"
NO_LOGARITHM = "the value is not a positive number"
ALONE_ON_HOST = "the only one on its host"
BOTH_FAILED = "arm and control both failed"

Place = tuple[str, int]
"""Arm and copy: a server of a block."""


@dataclass(frozen=True, slots=True)
class ContrastBlocks:
    """One contrast: its blocks with log values of one or two copies of the arm and of the control.

    `tried` counts the blocks with a run of the arm, `lost` those that do not count by reason, `halved` those that count
    with one copy of arm or control although two were run. `failure` is None if neither arm nor control failed; else
    `blocks` is empty.
    """

    step: str
    arm: str
    blocks: LogBlocks
    tried: int
    lost: Mapping[str, int]
    halved: Mapping[str, int]
    failure: ArmFailure | None


@dataclass(frozen=True)
class StepCells:
    """All log values of one step of a family: a row per block, a column per server, NaN where there is none."""

    family: Family
    step: str

    @cached_property
    def observations(self) -> dict[Place, dict[int, Observation]]:
        """{(arm, copy): {block: observation}}. Raises BugError for an undeclared arm or a run that is there twice."""
        found: dict[Place, dict[int, Observation]] = {}
        for one in self.family.steps[self.step]:
            if one.arm not in self.family.arms and one.arm != self.family.control:
                raise BugError(f"step {self.step}: observation of arm {one.arm!r}, which the family does not declare")
            of_place = found.setdefault((one.arm, one.copy), {})
            if one.block in of_place:
                where = f"step {self.step}, block {one.block}"
                raise BugError(f"{where}: arm {one.arm!r} copy {one.copy} is there twice")
            of_place[one.block] = one if one.failed or not _served_nothing(self.family, one) else _failed(one)
        return found

    def of(self, arm: str, copy: int = 1) -> dict[int, Observation]:
        """{block: observation} of one server."""
        return self.observations.get((arm, copy), {})

    def contrast(self, arm: str) -> ContrastBlocks:
        """The blocks of an arm against this family's control."""
        first, second = self.of(self.family.control), self.of(self.family.control, 2)
        treated = self.of(arm), self.of(arm, 2)
        tried = sorted(treated[0].keys() | treated[1].keys())
        blocks: dict[int, LogBlock] = {}
        lost: Counter[str] = Counter()
        halved: Counter[str] = Counter()
        arm_failed: list[str] = []
        control_failed: list[Observation] = []
        for block in tried:
            own, controls = ([of[block] for of in side if block in of] for side in (treated, (first, second)))
            failed, control_fails = ([one for one in side if one.failed] for side in (own, controls))
            if failed and not (block in first and first[block].failed):
                arm_failed.append(failed[0].failed)
            elif failed:
                lost[BOTH_FAILED] += 1
            elif control_fails:
                control_failed.append(control_fails[0])
            elif controls:
                of_arm, of_control = _logs(own), _logs(controls)
                if not of_arm or not of_control:
                    lost[_why((controls if of_arm else own)[0])] += 1
                    continue
                blocks[block] = LogBlock(of_arm, of_control)
                halved.update({_why(one) for one in (*own, *controls) if _why(one)})
        who: Literal["control", "copy"] = "copy" if {one.copy for one in control_failed} == {2} else "control"
        failure = _failure("arm", arm_failed, len(tried)) or _failure(
            who, [one.failed for one in control_failed], len(tried)
        )
        counted = without_lone_blocks(blocks, self.family.host_groups)
        if len(counted) < len(blocks):
            lost[ALONE_ON_HOST] += len(blocks) - len(counted)
        return ContrastBlocks(
            self.step,
            arm,
            {} if failure else counted,
            len(tried),
            dict(lost),
            dict(halved),
            failure,
        )

    def copies(self, arm: str = "") -> dict[int, float]:
        """{block: ln(A′ / A)} of the blocks with both copies of the control, or of another arm that has two."""
        first, second = (self.of(arm or self.family.control, copy) for copy in (1, 2))
        return {
            block: log(second[block].value or 0.0) - log(first[block].value or 0.0)
            for block in sorted(first.keys() & second.keys())
            if not _why(first[block]) and not _why(second[block])
        }

    def table(self, arms: Sequence[str]) -> Table:
        """The log values of the control's copies and of these arms, for the pooled noise."""
        places = [(arm, copy) for arm in (self.family.control, *arms) for copy in (1, 2)]
        places = [place for place in places if place in self.observations]
        rows = sorted({block for place in places for block in self.observations[place]})
        logs = np.full((len(rows), len(places)), np.nan)
        for column, place in enumerate(places):
            for row, block in enumerate(rows):
                found = self.observations[place].get(block)
                if found is not None and not _why(found):
                    logs[row, column] = log(found.value or 0.0)
        return Table(rows, places, logs)

    def unadjusted(self) -> StepCells | None:
        """The same step with the values before their adjustment; None if there are none."""
        observed = self.family.steps[self.step]
        if not any(one.unadjusted is not None for one in observed):
            return None
        before = tuple(replace(one, value=None if one.value is None else one.unadjusted) for one in observed)
        return StepCells(replace(self.family, steps={self.step: before}), self.step)


@dataclass(frozen=True, slots=True)
class Table:
    """Log values: `rows` are blocks, `places` servers."""

    rows: list[int]
    places: list[Place]
    logs: NDArray[np.float64]

    @property
    def arms(self) -> list[int]:
        """A number for each column's arm; copies share it, the control's is 0."""
        names = list(dict.fromkeys(arm for arm, _ in self.places))
        return [names.index(arm) for arm, _ in self.places]


def _logs(observations: Sequence[Observation]) -> tuple[float, ...]:
    """The logarithms of those that have one."""
    return tuple(log(one.value) for one in observations if one.value is not None and not _why(one))


def _served_nothing(family: Family, observation: Observation) -> bool:
    return family.metric.better == "higher" and observation.value == 0.0


def _failed(observation: Observation) -> Observation:
    return replace(observation, failed=NOTHING_SERVED)


def _why(observation: Observation) -> str:
    """Why an observation has no logarithm, naming its arm; empty if it has one."""
    value = observation.value
    if observation.failed:
        return f"{observation.arm}: {observation.failed}"
    if value is not None and isfinite(value) and value > 0.0:
        return ""
    reason = observation.reason or (NO_REASON if value is None else NO_LOGARITHM)
    return f"{observation.arm}: {reason}"


def _failure(who: Literal["arm", "control", "copy"], reasons: Sequence[str], tried: int) -> ArmFailure | None:
    """None if it did not fail."""
    if not reasons:
        return None
    return ArmFailure(who=who, blocks=len(reasons), tried=tried, why=dict(Counter(reasons).most_common()))
