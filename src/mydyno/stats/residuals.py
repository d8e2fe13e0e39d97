"""What is left of each run after its arm and its block, and whether running first or last in a block matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from mydyno.errors import BugError


@dataclass(frozen=True, slots=True)
class Residual:
    """How far one run's log value was from what its arm and its block alone would give."""

    block: int
    arm: str
    residual: float


def block_residuals(values: Mapping[tuple[int, str], float]) -> list[Residual]:
    """The residuals of ln(value) after arm and block means (least squares, so missing cells are allowed), sorted by
    block.

    Values must be positive: raises BugError otherwise. For the residual plot.
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


def order_effect_p(runs: Sequence[tuple[int, str, int, float]]) -> float | None:
    """Whether the position in the block matters: p of the F test of position as a factor, beside arm and block.

    `runs` holds (block, arm, position, value). Works on ln(value); the control's copies are one arm. None if there
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
    return float(scipy.special.fdtrc(extra, freedom, max(explained, 0.0) / extra / (error / freedom)))


def _indicators(labels: Sequence[object]) -> NDArray[np.float64]:
    names = sorted(set(labels), key=str)
    return np.array([[float(label == name) for name in names] for label in labels])


def _residuals(design: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return np.asarray(values - fitted, dtype=np.float64)
