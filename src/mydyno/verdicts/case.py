"""What a rule looks at: everything the statistics say about one contrast, gathered once, and the shape of a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mydyno.stats.maxt import Contrast
from mydyno.stats.noise import NoiseFloor
from mydyno.stats.paired import Paired
from mydyno.stats.power import blocks_for_detection, plan
from mydyno.stats.signflip import smallest_p
from mydyno.stats.tost import Equivalence
from mydyno.verdicts.effect import Metric, Scope, Verdict


@dataclass(frozen=True, slots=True)
class Case:
    """One arm against the control at one step of the primary metric.

    `lost` counts the blocks whose run of the arm or of the control's first copy was invalid, by reason. `alarm` is the
    A/A alarm of the whole family as a clause, or empty: A and A′ differ although they are the same.
    """

    metric: Metric
    step: str
    arm: str
    control: str
    scope: Scope
    margin: float
    level: float
    contrasts: int
    paired: Paired
    contrast: Contrast
    equivalence: Equivalence
    noise: NoiseFloor
    lost: Mapping[str, int]
    alarm: str
    copied: str = ""
    """The arm whose two copies gave the noise floor; empty: the control."""

    @property
    def noise_of(self) -> str:
        """The arm that every block runs twice."""
        return self.copied or self.control

    @property
    def alpha(self) -> float:
        """The error rate that goes with the level."""
        return 1.0 - self.level

    @property
    def distance(self) -> float:
        """How far the ratio is from 1, the same for an arm and its inverse: 1.04 and 1/1.04 are both 1.04 away."""
        ratio = self.paired.ratio
        return 1.0 if ratio is None else max(ratio, 1.0 / ratio)

    @property
    def above_floor(self) -> bool:
        """Whether the effect is larger than what two identical controls typically differ by."""
        return self.noise.floor is not None and self.distance > self.noise.floor

    @property
    def sign_flip_agrees(self) -> bool:
        """Whether the adjusted sign-flip p is significant: with few blocks it never is."""
        p = self.contrast.p_adjusted_sign_flip
        return p is not None and p <= self.alpha + 1e-12

    @property
    def differs(self) -> bool:
        """The condition of `higher` and `lower` but for the side: interval, sign-flip and noise floor all say so."""
        return self.contrast.interval.excludes_no_change() and self.sign_flip_agrees and self.above_floor

    @property
    def too_few_blocks(self) -> bool:
        """Whether even the clearest result of so few blocks has a p above alpha."""
        return smallest_p(self.paired.n) > self.alpha + 1e-12

    def blocks_needed(self) -> int | None:
        """About how many blocks in all decide this contrast within ±margin; None without a spread to plan from.

        Where the usual plan is already met, the truth lies between no change and the margin: then it is what the easier
        of the two needs, to tell this effect from none or to show it within the margin, each with 80 % power. An effect
        that only the floor stops can but be shown to be within the margin, which is above the floor.
        """
        n, sd = self.paired.n, self.paired.sd
        if sd is None:
            return None
        needed = plan(sd, self.margin, self.contrasts, self.alpha).blocks
        if needed > n:
            return needed
        effect = self.distance - 1.0
        to_margin = blocks_for_detection(sd, max(self.margin - effect, 0.1 * self.margin), alpha=2.0 * self.alpha)
        stopped_by_floor = self.contrast.interval.excludes_no_change() and self.sign_flip_agrees
        if stopped_by_floor or effect <= 0.0:
            return max(n + 1, to_margin)
        return max(n + 1, min(to_margin, blocks_for_detection(sd, effect, alpha=self.alpha)))


@dataclass(frozen=True, slots=True)
class Rule:
    """One verdict: when it holds, and the sentence it allows."""

    verdict: Verdict
    holds: Callable[[Case], bool]
    sentence: Callable[[Case], str]
