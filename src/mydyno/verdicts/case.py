"""Input of the verdicts: observations, families of contrasts, and of a rule all statistics of one contrast.

Their output is model/stored/summary.EffectRecord.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import expm1

from mydyno.model.definition.plan import InterimAnalyses
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


class Verdict(StrEnum):
    """The only five words a report may use. They describe the number, never its merit: a latency may be `higher`."""

    HIGHER = "higher"
    LOWER = "lower"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"
    NOT_MEASURABLE = "not_measurable"


@dataclass(frozen=True, slots=True)
class Observation:
    """One number of one run: what `arm` (its `copy`) gave in `block` for one metric at one step.

    `copy` is 1 for every arm and for the control's first copy (A), 2 for a second copy (A′, and X′ of a single treated
    arm). `value` is None for a run that a validity check made invalid; `reason` then says which, in the words that the
    report prints ("not steady", "allocator not proved"). A run that was never made is simply left out. `failed` is why
    the arm itself failed in this block (it crashed, ran out of memory, never started): a result, whatever `value` is.
    A rate of zero is a failure too; with another zero the contrast has no ratio. Negative and not-finite values are
    lost blocks with a reason, because they have no logarithm. `unadjusted` is the value before it was adjusted for the
    host's speed, if it was.
    """

    block: int
    arm: str
    value: float | None
    copy: int = 1
    reason: str = ""
    failed: str = ""
    unadjusted: float | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as summary.json names it. `better` is "higher", "lower" or "none"."""

    name: str
    unit: str = ""
    better: str = "none"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with its contrasts (arms against one control, at every step) as declared before the study.

    `steps` maps a step's id to its observations. `margin` is a fraction: 0.02 is
    ±2 %. `arms` lists every declared arm, so that one without a single valid run is still reported; the control may be
    among them or not. `primary` is False for an exploratory metric, which gets unadjusted intervals at `level` and no
    verdict; families with True are tested together, at the study's error rate. Where the control of this family has no
    second copy, `a_a` is the family of the arm that has one (its control): its copies are the A/A comparison, and the
    sentences say whose they are. `weight` is each contrast's share of the error rate, relative to the others'.
    """

    metric: Metric
    control: str
    arms: tuple[str, ...]
    steps: Mapping[str, tuple[Observation, ...]]
    margin: float
    primary: bool = True
    level: float = 0.95
    seed: int = 1
    a_a: Family | None = None
    host_groups: Mapping[int, str] = field(default_factory=dict)
    """{block: the host group that executed it}; empty where there is one group."""
    weight: float = 1.0

    @property
    def copied(self) -> str:
        """The arm that every block runs twice."""
        return self.control if self.a_a is None else self.a_a.control


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
