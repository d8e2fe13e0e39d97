"""What identical things do: the A/A noise floor, the effect of running first or last, residuals, and canary outliers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, isnan

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from mydyno.errors import BugError
from mydyno.stats.paired import Interval, paired
from mydyno.stats.signflip import sign_flip

QUANTILES = (0.5, 0.9, 1.0)
CANARY_LIMIT_MADS = 3.0
MAD_TO_SD = 1.4826
"""Turns the median absolute deviation of normal values into their sd, so that 3 of them mark 0.3 % of good blocks."""


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """How far two copies of the control were apart: the A/A contrast, and the quantiles of its size over blocks.

    `interval` is of the mean ratio A′ / A. `quantiles` maps 0.5, 0.9 and 1.0 to ratios >= 1: in half of the blocks the
    copies differed by no more than the first. `floor` is the one number that verdicts use, as a ratio >= 1: the larger
    of that median and of the mean A/A ratio. All are None where no block has both copies (`interval` also for one
    block).
    """

    n: int
    ratio: float | None
    interval: Interval
    p: float | None
    sd: float | None
    quantiles: Mapping[float, float]
    floor: float | None


def noise_floor(log_ratios: Sequence[float] | NDArray[np.float64], level: float = 0.95, seed: int = 1) -> NoiseFloor:
    """The noise floor from ln(A′ / A), one per block; `p` is the weaker of the sign-flip and the t.

    The median over blocks does not shrink with more blocks, so the floor is a property of the host and the load: an
    effect smaller than what two identical runs typically differ by is not called one, however many blocks there are.
    """
    d = np.asarray(log_ratios, dtype=np.float64)
    answer = paired(d, level)
    if answer.n == 0 or answer.ratio is None:
        return NoiseFloor(0, None, answer.interval, None, None, {}, None)
    sizes = np.abs(d)
    quantiles = {q: exp(float(np.quantile(sizes, q))) for q in QUANTILES}
    floor = max(quantiles[0.5], exp(abs(float(d.mean()))))
    p_flip = sign_flip(d, seed).p
    p = p_flip if answer.p is None else max(answer.p, p_flip or 0.0)
    return NoiseFloor(answer.n, answer.ratio, answer.interval, p, answer.sd, quantiles, floor)


@dataclass(frozen=True, slots=True)
class Residual:
    """How far one run's log value was from what its arm and its block alone would give."""

    block: int
    arm: str
    residual: float


def block_residuals(values: Mapping[tuple[int, str], float]) -> list[Residual]:
    """The residuals of ln(value) after arm and block means (least squares, so missing cells are allowed), sorted by
    block.

    Values must be positive: raises BugError otherwise. For the residual plot and, times sqrt(2), the internal pilot.
    """
    if any(not value > 0.0 for value in values.values()):
        raise BugError("block residuals need positive values; drop invalid runs first")
    cells = sorted(values)
    if not cells:
        return []
    logs = np.log([values[cell] for cell in cells])
    design = np.hstack([_indicators([block for block, _ in cells]), _indicators([arm for _, arm in cells])])
    residuals = _residuals(design, logs)
    return [Residual(block, arm, float(r)) for (block, arm), r in zip(cells, residuals, strict=True)]


def residual_sd(values: Mapping[tuple[int, str], float]) -> float | None:
    """The sd of one run's log value within arm and block; None without degrees of freedom left."""
    residuals = block_residuals(values)
    blocks, arms = {r.block for r in residuals}, {r.arm for r in residuals}
    freedom = len(residuals) - len(blocks) - len(arms) + 1
    return float(np.sqrt(sum(r.residual**2 for r in residuals) / freedom)) if freedom > 0 else None


def order_effect_p(runs: Sequence[tuple[int, str, int, float]]) -> float | None:
    """Whether the position in the block matters: p of the F test of position as a factor, beside arm and block.

    `runs` holds (block, arm, position, value). Works on ln(value); the control's copies are one arm. None where there
    are too few runs, positions are not crossed with arms, or nothing varies. Raises BugError for a value that is not
    positive.
    """
    if any(not run[3] > 0.0 for run in runs):
        raise BugError("the order effect needs positive values; drop invalid runs first")
    if len(runs) < 3:
        return None
    logs = np.log([run[3] for run in runs])
    without = np.hstack([_indicators([run[0] for run in runs]), _indicators([run[1] for run in runs])])
    with_position = np.hstack([without, _indicators([run[2] for run in runs])])
    rank_without, rank_with = int(np.linalg.matrix_rank(without)), int(np.linalg.matrix_rank(with_position))
    freedom, extra = len(runs) - rank_with, rank_with - rank_without
    if freedom < 1 or extra < 1:
        return None
    error = float(np.square(_residuals(with_position, logs)).sum())
    explained = float(np.square(_residuals(without, logs)).sum()) - error
    if error <= 1e-20 * len(runs):
        return None
    return float(stats.f.sf(max(explained, 0.0) / extra / (error / freedom), extra, freedom))


def canary_outliers(readings: Sequence[float], limit: float = CANARY_LIMIT_MADS) -> list[int]:
    """The indices of readings further than `limit` scaled MADs from the session's median, in order.

    A reading that is missing (NaN) is an outlier: the block's canary did not work. If at least half of the readings are
    equal, every other value is further than any multiple of a MAD of 0, so it is marked. Fewer than 3 readings mark
    none.
    """
    values = np.asarray(readings, dtype=np.float64)
    good = values[~np.isnan(values)]
    missing = [index for index, value in enumerate(values) if isnan(value)]
    if good.size < 3:
        return missing
    median = float(np.median(good))
    mad = MAD_TO_SD * float(np.median(np.abs(good - median)))
    slack = 1e-9 * abs(median)
    return [i for i, value in enumerate(values) if isnan(value) or abs(value - median) > limit * mad + slack]


@dataclass(frozen=True, slots=True)
class Calibration:
    """How often this laboratory's A/A contrasts came out significant at `alpha`, with the exact binomial 95 % interval.

    `alarm` needs at least 60 contrasts and an interval that does not contain `alpha`.
    """

    contrasts: int
    significant: int
    rate: float | None
    low: float | None
    high: float | None
    alarm: bool


def calibration(p_values: Sequence[float], alpha: float = 0.05, fewest: int = 60) -> Calibration:
    """The calibration of a laboratory from all the A/A p values it kept (Clopper and Pearson, Biometrika 26 (1934))."""
    count = len(p_values)
    if count == 0:
        return Calibration(0, 0, None, None, None, False)
    significant = sum(p <= alpha for p in p_values)
    interval = stats.binomtest(significant, count).proportion_ci(0.95)
    low, high = float(interval.low), float(interval.high)
    return Calibration(count, significant, significant / count, low, high, count >= fewest and not low <= alpha <= high)


def _indicators(labels: Sequence[object]) -> NDArray[np.float64]:
    names = sorted(set(labels), key=str)
    return np.array([[float(label == name) for name in names] for label in labels])


def _residuals(design: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return np.asarray(values - fitted, dtype=np.float64)
