"""Made-up studies over several host groups, as runs: each host has its own speed, noise and effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mydyno.model.definition.experiment import Experiment, StepSpec
from mydyno.model.stored.summary import RunSummary
from tests.support.fake_script import experiment

STEP = "oltp_read_only-4"


def spread(sizes: Sequence[int]) -> dict[int, str]:
    """{block: group} of so many blocks on vm1, vm2, …"""
    names = [f"vm{group}" for group, size in enumerate(sizes, 1) for _ in range(size)]
    return dict(enumerate(names, 1))


@dataclass(frozen=True)
class Fleet:
    """`blocks` on each host, their speed factors and noise (sd of a run); `between` is the sd of the arms' effects."""

    blocks: tuple[int, ...]
    noise: tuple[float, ...]
    between: float = 0.0
    arms: tuple[str, ...] = ("glibc", "jemalloc", "tcmalloc", "mimalloc")

    @property
    def experiment(self) -> Experiment:
        """Allocators at one step."""
        return experiment(self.arms, steps=(StepSpec(workload="oltp_read_only", connections=(4,)),))

    def effects(self, random: np.random.Generator) -> NDArray[np.float64]:
        """Log effects, hosts × arms after the control: mean zero over all hosts there could be."""
        return np.asarray(random.normal(0.0, self.between, (len(self.blocks), len(self.arms) - 1)))

    def runs(self, random: np.random.Generator, effects: NDArray[np.float64]) -> list[RunSummary]:
        """Every arm and the control's copy once in each block; hosts differ in speed by a factor of up to three."""
        speeds = random.uniform(0.0, np.log(3.0), len(self.blocks))
        of_block = [host for host, size in enumerate(self.blocks) for _ in range(size)]
        found = []
        for block, host in enumerate(of_block, 1):
            level = 9.0 + speeds[host] + random.normal(0.0, 0.05)
            for arm, copy in [*((arm, 1) for arm in self.arms), (self.arms[0], 2)]:
                place = self.arms.index(arm)
                planted = effects[host, place - 1] if place else 0.0
                qps = float(np.exp(level + planted + random.normal(0.0, self.noise[host])))
                found.append(
                    RunSummary(
                        block=block, position=1, arm=arm, copy=copy, valid=True, folder="",
                        host_group=f"vm{host + 1}", values={STEP: {"qps": qps}},
                    )
                )  # fmt: skip
        return found
