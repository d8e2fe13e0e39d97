"""The A/A noise floor: how far apart two copies of the same control are on this host, under this load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mydyno.stats.paired import Interval, paired, ratio_of
from mydyno.stats.signflip import sign_flip

QUANTILES = (0.5, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """How far two copies of the control were apart: the A/A contrast, and the quantiles of its size over blocks.

    `interval` is of the mean ratio A′ / A. `quantiles` maps 0.5, 0.9 and 1.0 to ratios >= 1: in half of the blocks the
    copies differed by no more than the first. `floor` is the one number that verdicts use, as a ratio >= 1: the larger
    of that median and of the mean A/A ratio. All are None if no block has both copies (`interval` also for one
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
    quantiles = dict(zip(QUANTILES, map(ratio_of, np.quantile(np.abs(d), QUANTILES).tolist()), strict=True))
    floor = max(quantiles[0.5], ratio_of(abs(float(d.mean()))))
    p_flip = sign_flip(d, seed).p
    p = p_flip if answer.p is None else max(answer.p, p_flip or 0.0)
    return NoiseFloor(answer.n, answer.ratio, answer.interval, p, answer.sd, quantiles, floor)
