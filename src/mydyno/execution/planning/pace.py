"""How many cycles each step of a block gets: a fixed number, or as many as fit until a deadline."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

LEAST_CYCLES = 2


class Pace(Protocol):
    """How many cycles a step gets."""

    def step_begins(self, steps_left: int) -> None:
        """A step begins; `steps_left` counts it."""

    def left_s(self, cycle_s: float) -> float:
        """The time of the step that has begun, if it has cycles of this length."""

    def another_cycle(self, made: int, last_s: float) -> bool:
        """Whether to run another cycle after `made` of this step, the last of which took `last_s`."""


@dataclass
class FixedCycles:
    """The same number of cycles for every step."""

    cycles: int

    def step_begins(self, steps_left: int) -> None:
        """Nothing to prepare."""

    def left_s(self, cycle_s: float) -> float:
        """All of its cycles."""
        return self.cycles * cycle_s

    def another_cycle(self, made: int, last_s: float) -> bool:  # noqa: ARG002
        """Until the number is reached."""
        return made < self.cycles


@dataclass
class UntilDeadline:
    """As many cycles as fit until a moment of the monotonic clock, shared equally among the block's steps."""

    deadline_s: float
    reserve_s: float
    """Reserved for stopping the servers."""
    _step_end_s: float = 0.0

    def step_begins(self, steps_left: int) -> None:
        """Divide what is left."""
        now_s = time.monotonic()
        self._step_end_s = now_s + max(0.0, self.deadline_s - self.reserve_s - now_s) / steps_left

    def left_s(self, cycle_s: float) -> float:
        """Until its end; one cycle in any case."""
        return max(cycle_s, self._step_end_s - time.monotonic())

    def another_cycle(self, made: int, last_s: float) -> bool:
        """While another one fits; one in any case, and two while the block's time is not over."""
        now_s = time.monotonic()
        if made < LEAST_CYCLES:
            return made == 0 or now_s < self.deadline_s
        return now_s + last_s <= self._step_end_s
