"""All contrasts of a study together: their intervals and the p of their effects.

An interval is the wider of two. One is Student's t with the largest |t| of all contrasts (stats/simultaneous.py); its
noise is pooled, or the contrast's own where that is larger, by a test at UNEQUAL_ABOVE over all contrasts. The other
has the effects that the joint permutation of labels (stats/permutation.py) does not reject. So an interval without 1
and a p of at most alpha nearly always come together, with few blocks and many contrasts too. Contrasts of the first
metric of the question have a larger share of the error rate than the others (results/families.py).

From observations to blocks: which log values a contrast has, which blocks are lost, and whether an arm failed. A
failure of the arm in a block in which the control did not fail, or of the control in one in which the arm did not, is a
result: the contrast then has no ratio, because a ratio of the blocks that survived would leave out the worst ones.
Blocks lost for any other reason (a validity check, a cycle dropped for all arms, both failed) are left out and counted.
A contrast with a value of 0 has no ratio either: the blocks that are left would be those in which it is not 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import expm1, isfinite, log
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from mydyno.errors import BugError
from mydyno.model.stored.reasons import NOTHING_SERVED, ArmFailure
from mydyno.stats.contrast import Estimate, LogBlock, LogBlocks, log_ratios
from mydyno.stats.groups import GroupedNoise, block_weights, group_deviations, grouped_estimate, without_lone_blocks
from mydyno.stats.paired import LARGEST_LOG, Interval, ratio_of
from mydyno.stats.permutation import Exchange, JointTest, joint_test, possible
from mydyno.stats.simultaneous import LargestT, largest_t
from mydyno.stats.twoway import TwoWay, unequal_above
from mydyno.verdicts.case import Family, Observation

NO_REASON = "the run is invalid"
NO_LOGARITHM = "the value is not a positive number"
ZERO, ZERO_ELSEWHERE = "the value is 0", "it is 0 in another block"
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

    @property
    def lost_most(self) -> bool:
        """Whether more blocks are lost than left."""
        return sum(self.lost.values()) > len(self.blocks)


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
        if failure is None and any(why.endswith(ZERO) for why in (*lost, *halved)):
            # The blocks that are left would be those in which the value is not 0.
            lost.update({ZERO_ELSEWHERE: len(blocks)} if blocks else {})
            blocks = {}
        counted = without_lone_blocks(blocks, self.family.host_groups)
        if len(counted) < len(blocks):
            lost[ALONE_ON_HOST] += len(blocks) - len(counted)
        return ContrastBlocks(
            self.step, arm, {} if failure else counted, len(tried), dict(lost), dict(sorted(halved.items())), failure
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
    reason = observation.reason or (NO_REASON if value is None else NO_LOGARITHM if value else ZERO)
    return f"{observation.arm}: {reason}"


def _failure(who: Literal["arm", "control", "copy"], reasons: Sequence[str], tried: int) -> ArmFailure | None:
    """None if it did not fail."""
    if not reasons:
        return None
    return ArmFailure(who=who, blocks=len(reasons), tried=tried, why=dict(Counter(reasons).most_common()))


FEWEST_TO_CORRELATE = 8
"""Residuals that two steps or metrics must share before their correlation is used; else they count as independent."""
FLOOR_OF_MARGIN = 0.1
"""Share of the margin far below which a difference counts for less than its share of the noise.

A metric with hardly any noise (every key found, the bytes of a transaction) then does not hide the others' effects.
"""


@dataclass(frozen=True, slots=True)
class MeasuredContrast:
    """One contrast with all that belongs to it alone. `noise` and `table` are of its step."""

    family: Family
    cells: StepCells
    gathered: ContrastBlocks
    table: Table
    noise: GroupedNoise
    estimate: Estimate
    exchange: Exchange
    before: Estimate | None
    """The estimate from the values before their adjustment for the host's speed."""

    @property
    def copies(self) -> dict[int, float]:
        """{block: ln(A′ / A)} of the arm that every block runs twice."""
        return (StepCells(self.family.a_a, self.gathered.step) if self.family.a_a else self.cells).copies()

    @property
    def pool(self) -> TwoWay:
        """The noise of all servers of the step that vary alike."""
        return self.noise.pool


@dataclass(frozen=True, slots=True)
class Together:
    """The contrasts of a study that have a block, tested together at error rate `alpha`. `weights`: of each."""

    alpha: float
    weights: tuple[float, ...]
    estimates: tuple[Estimate, ...]
    largest: LargestT
    joint: JointTest

    def critical_p(self, index: int | None) -> float:
        """The two-sided p of one contrast's t that keeps the study's error rate; None: of one that has no block."""
        return self.largest.critical_p(self.alpha, 1.0 if index is None else self.weights[index])

    def equal_contrasts(self, index: int | None) -> int:
        """How many contrasts of equal weight have as small a share of the error rate as this one."""
        return max(1, round(sum(self.weights) / (1.0 if index is None else self.weights[index])))

    def adjusted_t(self, index: int | None) -> float | None:
        """The adjusted p of one contrast's t; None for none, and where t does not exist."""
        p = None if index is None else self.estimates[index].p()
        return None if p is None or index is None else self.largest.adjusted(p, self.weights[index])

    def interval(self, index: int) -> tuple[Interval, float | None]:
        """The ratio's simultaneous interval of one contrast, and half of its width on the log scale as a fraction."""
        found, level = self.estimates[index], 1.0 - self.alpha
        half = found.half(self.critical_p(index))
        if found.mean is None or half is None:
            return Interval(None, None, level), None
        low, high = found.mean - half, found.mean + half
        permuted = self.joint.interval(index, self.alpha)
        if permuted is not None:
            low, high = min(low, permuted[0]), max(high, permuted[1])
        return Interval(ratio_of(low), ratio_of(high), level), expm1(min((high - low) / 2.0, LARGEST_LOG))


def estimates_of(members: Sequence[MeasuredContrast]) -> tuple[Estimate, ...]:
    """The estimate of each contrast, with the noise that it has among these."""
    bar = unequal_above(len(members))
    return tuple(
        grouped_estimate(one.gathered.blocks, one.noise, one.family.host_groups, unequal_above=bar) for one in members
    )


def tested_together(members: Sequence[MeasuredContrast], alpha: float, seed: int) -> Together:
    """The joint test and the simultaneous intervals of these contrasts; each has a block."""
    found = estimates_of(members)
    weights = tuple(one.family.weight for one in members)
    joint = joint_test(_sized([one.exchange for one in members], weights, alpha), seed)
    return Together(alpha, weights, found, _largest_t(members, found, alpha, seed), joint)


def _sized(exchanges: Sequence[Exchange], weights: Sequence[float], alpha: float) -> list[Exchange]:
    """The exchanges, their statistics in the proportion of what Bonferroni's shares of alpha ask of a normal number."""
    shares = [alpha * weight / sum(weights) for weight in weights]
    asked = [float(scipy.special.ndtri(1.0 - share / 2.0)) for share in shares]
    return [replace(one, size=min(asked) / own) for one, own in zip(exchanges, asked, strict=True)]


def exchange(gathered: ContrastBlocks, family: Family) -> Exchange:
    """What the permutation of labels exchanges in each block of a contrast."""
    pairs = StepCells(family.a_a, gathered.step).copies() if family.a_a else {}
    return Exchange(
        {block: possible(values, pairs.get(block)) for block, values in gathered.blocks.items()},
        block_weights(gathered.blocks, family.host_groups),
        group_deviations(log_ratios(gathered.blocks), family.host_groups),
        floor=family.margin * FLOOR_OF_MARGIN,
    )


def _largest_t(members: Sequence[MeasuredContrast], estimates: Sequence[Estimate], alpha: float, seed: int) -> LargestT:
    """The distribution of the largest |t| over the contrasts that have an interval."""
    having = [(one, found) for one, found in zip(members, estimates, strict=True) if found.error]
    if len(having) < 2:
        return LargestT(np.empty(0), 1.0)
    shared: list[tuple[int, str]] = [
        (id(one.pool), "") if found.pooled else (number, "own") for number, (one, found) in enumerate(having)
    ]
    groups = {key: place for place, key in enumerate(dict.fromkeys(shared))}
    return largest_t(
        _correlation([one for one, _ in having]),
        [found.freedom for _, found in having],
        [groups[key] for key in shared],
        alpha,
        seed,
        [one.family.weight for one, _ in having],
    )


def _correlation(members: Sequence[MeasuredContrast]) -> NDArray[np.float64]:
    """The correlation of the contrasts' estimates.

    Each is a weighted sum of log values. Two of one step share the values of the control; two of different steps or
    metrics are correlated as far as the residuals of their tables are, server by server and block by block.
    """
    cells: dict[tuple[int, str, int], int] = {}
    for one in members:
        for block in one.table.rows:
            for arm, copy in one.table.places:
                cells.setdefault((block, arm, copy), len(cells))
    weights = np.zeros((len(members), len(cells)))
    tables = {id(one.pool): place for place, one in enumerate({id(m.pool): m for m in members}.values())}
    residuals = np.full((len(tables), len(cells)), np.nan)
    for row, one in enumerate(members):
        table, control = one.table, one.family.control
        where = {place: column for column, place in enumerate(table.places)}
        of_block = block_weights(one.gathered.blocks, one.family.host_groups)
        for block, values in one.gathered.blocks.items():
            at = table.rows.index(block)
            for arm, weight in ((one.gathered.arm, 1.0 / len(values.arm)), (control, -1.0 / len(values.control))):
                for copy in (1, 2):
                    column = where.get((arm, copy))
                    if column is not None and not np.isnan(table.logs[at, column]):
                        weights[row, cells[block, arm, copy]] = of_block[block] * weight
    for one in {id(one.pool): one for one in members}.values():
        for (i, j), value in np.ndenumerate(one.pool.residuals):
            residuals[tables[id(one.pool)], cells[one.table.rows[i], *one.table.places[j]]] = value
    weights /= np.sqrt(np.square(weights).sum(axis=1, keepdims=True))
    of = [tables[id(one.pool)] for one in members]
    return np.asarray((weights @ weights.T) * _residual_correlation(residuals)[np.ix_(of, of)])


def _residual_correlation(residuals: NDArray[np.float64]) -> NDArray[np.float64]:
    """The correlation of tables' residuals over the values that both have; 0 where they share too few."""
    present = ~np.isnan(residuals)
    known = np.where(present, residuals, 0.0)
    products = known @ known.T
    squares = np.square(known) @ present.T.astype(float)
    shared = present.astype(float) @ present.T.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(
            (shared >= FEWEST_TO_CORRELATE) & (squares > 0.0), products / np.sqrt(squares * squares.T), 0.0
        )
    np.fill_diagonal(found, 1.0)
    return np.asarray(np.nan_to_num(found))
