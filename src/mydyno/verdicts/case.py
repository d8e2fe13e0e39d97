"""The input of a rule: all statistics of one contrast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import expm1

from mydyno.model.definition.interim import InterimAnalyses
from mydyno.model.stored.reasons import ArmFailure, CopiesDiffer
from mydyno.stats.contrast import Estimate
from mydyno.stats.paired import Interval
from mydyno.stats.power import (
    MOST_BLOCKS,
    blocks_for_detection,
    blocks_for_equivalence,
    can_be_significant,
    minimum_blocks,
    planned_look,
    sample_size,
)
from mydyno.stats.tost import Equivalence

SLACK = 1e-12


@dataclass(frozen=True, slots=True)
class Case:
    """One arm against a control at one step of a metric with verdicts.

    `contrasts` is how many equal contrasts would each have its share of the error rate, `copies_differ` the mean of
    ln(A′ / A) at the step (None if no block has both), `labels` how many d each block could have had, `servers` how
    many servers the pooled noise comes from. `lost` counts the blocks that do not count, by reason. `alarm` is the A/A
    alarm of the whole study. `looks` are those of a sequential study; `due`: a verdict may be given now.
    """

    margin: float
    alpha: float
    contrasts: int
    estimate: Estimate
    interval: Interval
    half_width: float | None
    p_adjusted_permutation: float | None
    equivalence: Equivalence
    copies_differ: float | None
    labels: tuple[int, ...]
    servers: int
    lost: Mapping[str, int]
    failure: ArmFailure | None
    alarm: CopiesDiffer | None
    looks: InterimAnalyses | None = None
    due: bool = True

    @property
    def n(self) -> int:
        """Blocks that count."""
        return self.estimate.n

    @property
    def beyond_copies(self) -> bool:
        """Whether the effect is larger than the mean difference of the two copies of the control."""
        found, copies = self.estimate.mean, self.copies_differ
        return found is not None and copies is not None and abs(found) > abs(copies)

    @property
    def permutation_agrees(self) -> bool:
        """Whether the adjusted p of the joint permutation is at most alpha: with few blocks it never is."""
        p = self.p_adjusted_permutation
        return p is not None and p <= self.alpha + SLACK

    @property
    def differs(self) -> bool:
        """The condition of `higher` and `lower` but for the side: interval, permutation and A/A all agree."""
        return self.due and self.interval.excludes_no_change() and self.permutation_agrees and self.beyond_copies

    @property
    def equivalent(self) -> bool:
        """Whether the two one-sided tests both reject, at a moment at which a verdict may be given."""
        return self.due and self.equivalence.equivalent

    @property
    def too_few_blocks(self) -> bool:
        """Whether even the clearest result of this number of blocks has an adjusted p above alpha."""
        return not can_be_significant(self.labels, self.contrasts, self.alpha)

    @property
    def seems_different(self) -> bool:
        """Whether more blocks would show a difference, if it is as large as it seems: larger than the margin, or found
        by one of interval and permutation already.
        """
        effect = abs(self.estimate.mean or 0.0)
        return expm1(effect) > self.margin or self.interval.excludes_no_change() or self.permutation_agrees

    def blocks_needed(self) -> int | None:
        """About how many blocks in all decide this contrast, with 80 % power; None without a spread to plan from.

        It is what shows the difference that there seems to be, or decides it within ±margin where that is less. In a
        sequential study it is the blocks of a later look. Where the plan for the margin is already met, the truth lies
        between no change and the margin: then it is what the easier of the two needs, to tell this effect from none or
        to show it within the margin.
        """
        sd = self.estimate.block_sd
        if sd is None:
            return None
        by_margin = self._for_margin(sd)
        return min(by_margin, self._for_effect(sd)) if self.seems_different else by_margin

    @property
    def _freedom(self) -> int:
        return max(1, self.servers - 1) if self.estimate.pooled else 1

    def _for_effect(self, sd: float) -> int:
        """Blocks that show a difference as large as the observed one."""
        effect, labels = expm1(abs(self.estimate.mean or 0.0)), max(self.labels, default=2)
        if effect <= 0.0:
            return MOST_BLOCKS

        def enough(alpha: float) -> int:
            found = blocks_for_detection(sd, effect, alpha=alpha / self.contrasts, freedom=self._freedom)
            return max(found, minimum_blocks(self.contrasts, alpha, labels))

        if self.looks:
            later = (look for look, alpha in self.looks.rates.items() if look > self.n and enough(alpha) <= look)
            return next(later, MOST_BLOCKS)
        return max(self.n + 1, enough(self.alpha))

    def _for_margin(self, sd: float) -> int:
        labels, n, freedom = max(self.labels, default=2), self.n, self._freedom
        if self.looks:
            look = planned_look(self.looks, sd, self.margin, self.contrasts, n, freedom, labels)
            return look or MOST_BLOCKS
        needed = sample_size(sd, self.margin, self.contrasts, self.alpha, freedom, labels)
        if needed > n:
            return needed
        effect = expm1(abs(self.estimate.mean or 0.0))
        room = max(self.margin - effect, 0.1 * self.margin)
        # Against a true ratio off 1 one of the two tests decides: its power is that of a test at 2·alpha.
        to_margin = blocks_for_detection(sd, room, alpha=2.0 * self.alpha, freedom=freedom)
        to_margin = max(to_margin, blocks_for_equivalence(sd, self.margin, alpha=self.alpha, freedom=freedom))
        return max(n + 1, min(to_margin, self._for_effect(sd)))

    @property
    def look_after(self) -> int | None:
        """The blocks of the next look."""
        return None if self.looks is None else self.looks.next_after(self.n)
