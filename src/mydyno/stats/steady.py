"""Whether a window may be called steady: warm-up cut, drift and change points of the throughput, and the server's
state.

No single rule is trusted. A window is `not steady` if noise does not explain what was seen, `undecided` if the window
is too short or too noisy to decide (then only a longer window helps, and the verdict says so), `steady` otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import log

import numpy as np
from numpy.typing import NDArray

from mydyno.errors import BugError
from mydyno.stats.changepoint import ChangePoint, change_points
from mydyno.stats.cycles import complete_cycles
from mydyno.stats.mser import MserCut
from mydyno.stats.trend import Drift, drift, relative

FEWEST_CYCLES = 3
FEWEST_SAMPLES = 12
STATE_MARGIN = 0.05


class Steadiness(StrEnum):
    """The three answers about a window."""

    STEADY = "steady"
    NOT_STEADY = "not steady"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class StateSeries:
    """A state of the server over the window: checkpoint age, dirty pages, resident memory.

    Its drift is measured against `scale`: the state's own capacity where it has one (the maximum checkpoint age, 100
    for a percentage), else None for the window's mean. An empty series does not exist on this server and is not judged.
    """

    name: str
    values: Sequence[float] | NDArray[np.float64]
    scale: float | None = None
    margin: float = STATE_MARGIN


@dataclass(frozen=True, slots=True)
class SteadyVerdict:
    """The answer with everything it rests on; `reasons` are phrases for the report, empty for a steady window."""

    steadiness: Steadiness
    drift: Drift
    change_points: tuple[ChangePoint, ...]
    cycles: dict[str, int]
    reasons: tuple[str, ...]


def judge(
    throughput: Sequence[float] | NDArray[np.float64],
    margin: float,
    cut: MserCut | None = None,
    states: Sequence[StateSeries] = (),
) -> SteadyVerdict:
    """The verdict on one window of throughput, a sample per second, after the common cut.

    `margin` is the one of the verdicts, a fraction; `cut` is the MSER-5 cut of the whole series of this run. Not
    steady: the cut lies beyond half of the series; the straight line changes by margin / 2 or more; the level changes
    by more than the margin; or a state neither completed 3 cycles nor stayed within its own margin. Raises BugError for
    a NaN.
    """
    x = np.asarray(throughput, dtype=np.float64)
    if not np.isfinite(x).all() or not margin > 0.0:
        raise BugError("steady state is judged on finite throughput and a positive margin")
    logs = relative(x)
    line, steps = drift(logs), tuple(change_points(logs, log(1.0 + margin)))
    broken, doubts = _cut_reasons(cut)
    if line.exceeds(margin / 2.0):
        broken.append(f"throughput drifts by {_signed(line.change)} over the window, limit ±{_percent(margin / 2.0)}")
    elif line.may_exceed(margin / 2.0):
        doubts.append(
            f"a drift of {_signed(line.change)} over the window may be noise: the window is too short to decide"
        )
    broken += [f"the level changes by {_signed(step.change)} at {step.at} s of the window" for step in steps]
    cycles = {state.name: complete_cycles(state.values) for state in states if len(state.values)}
    # A state cannot complete cycles in a few seconds: that says nothing against the server, only against the window.
    (broken if x.size >= FEWEST_SAMPLES else doubts).extend(
        reason for state in states if (reason := _state_reason(state, cycles))
    )
    if x.size < FEWEST_SAMPLES:
        doubts.append(f"{x.size} samples are too few to judge")
    elif float(x.max()) <= 0.0:
        broken.append("nothing was served in the window")
    steadiness = Steadiness.NOT_STEADY if broken else Steadiness.UNDECIDED if doubts else Steadiness.STEADY
    return SteadyVerdict(steadiness, line, steps, cycles, tuple(broken + doubts))


def _cut_reasons(cut: MserCut | None) -> tuple[list[str], list[str]]:
    """What the MSER-5 cut says against the run, and what it leaves in doubt."""
    if cut is None or not cut.beyond_half:
        return [], []
    reason = f"the warm-up takes {cut.cut} of {cut.samples} samples by MSER-5, more than half"
    return ([reason], []) if cut.trustworthy else ([], [f"{reason}, in a series too short to trust it"])


def _state_reason(state: StateSeries, cycles: dict[str, int]) -> str:
    """Why a state of the server speaks against the window; empty if it does not."""
    values = np.asarray(state.values, dtype=np.float64)
    scale = state.scale or (float(np.abs(values).mean()) if values.size else 0.0)
    if values.size < 3 or scale == 0.0 or cycles[state.name] >= FEWEST_CYCLES:
        return ""
    change = drift(np.asarray(values / scale, dtype=np.float64)).change
    if abs(change) < state.margin:
        return ""
    seen = cycles[state.name]
    return f"{state.name} changes by {_signed(change)} over the window and completes {seen} of {FEWEST_CYCLES} cycles"


def _percent(fraction: float) -> str:
    return f"{abs(fraction) * 100.0:.1f} %"


def _signed(change: float) -> str:
    return ("+" if change >= 0.0 else "\N{MINUS SIGN}") + _percent(change)
