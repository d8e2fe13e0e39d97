"""Input and output of the verdicts: observations, and one effect per arm and step.

Everything here is frozen and plain, so that an effect can be written to summary.json and read back without this
package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mydyno.model.stored.fact import Fact


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

    `copy` is 1 for every arm and for the control's first copy (A), 2 for the control's second copy (A′). `value` is
    None for a run that a gate made invalid; `reason` then says which gate, in the words that the report prints ("not
    steady", "allocator not proved"). A run that was never made is simply left out. `failed` is why the arm itself
    failed in this block (it crashed, ran out of memory, gave errors, never started): a result, whatever `value` is.
    A rate of zero is a failure too. Other zeros, negative and not-finite values are lost blocks with a reason, because
    they have no logarithm. `unadjusted` is the value before it was adjusted for the host's speed, if it was.
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
    sentences say whose they are.
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

    @property
    def copied(self) -> str:
        """The arm that every block runs twice."""
        return self.control if self.a_a is None else self.a_a.control


@dataclass(frozen=True, slots=True)
class Effect:
    """One contrast, one verdict. The first eleven fields are summary.json's; the rest is for the report.

    `ratio`, `ci_low`, `ci_high` are arm divided by control (1.042 is +4.2 %), of several host groups the mean over
    these groups, with equal weights (stats/groups.py); they are None if too few blocks are
    valid (a ratio needs one, an interval two) and where arm or control failed. For metrics with verdicts the interval
    is simultaneous over the study and `p` that of the joint permutation of labels; for others both are unadjusted, `p`
    is the larger of the t's and the permutation's, and `verdict` is None.
    """

    metric: str
    step: str
    arm: str
    control: str
    n: int
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    verdict: Verdict | None
    primary: bool
    log_ratios: Mapping[int, float]
    """d of each block: ln(arm) less the mean of the logs of A and A′, as far as both are there; the chart's dots."""
    hodges_lehmann: float | None
    skewed: bool
    unadjusted_low: float | None
    unadjusted_high: float | None
    """The interval without adjustment for other contrasts."""
    p_t: float | None
    """Unadjusted p of the t; None if it does not exist (fewer than two blocks, no spread at all)."""
    p_permutation: float | None
    """Unadjusted p of the label permutation."""
    p_adjusted_permutation: float | None
    """The same adjusted for all contrasts of the study, which are permuted together; None for an exploratory metric."""
    equivalence_low: float | None
    equivalence_high: float | None
    smallest_margin: float | None
    """The smallest margin (a fraction) within which these data would be called equivalent; None without an interval."""
    noise_floor: float | None
    """The median A/A difference at this step as a ratio (1.008), for charts; it decides nothing."""
    blocks_needed: int | None
    """About how many more blocks an inconclusive contrast needs; None for every other verdict."""
    reasons: tuple[str, ...]
    """Why blocks are missing and what weakens the answer, each a phrase that the report prints."""
    adjustment: str
    """"max-t, joint permutation" (how intervals and p are adjusted), or "none"."""
    half_width: float | None = None
    """Half of the interval on the log scale, as a fraction: 0.02 is ±2 %; None without an interval."""
    method: str = "pooled"
    """The noise in the interval: "pooled" over the servers of a step, or "pairs", this contrast's own.

    With several host groups it is the noise inside the groups.
    """
    freedom: int = 0
    """Degrees of freedom of the interval."""
    failure: str = ""
    """That arm or control failed, in how many blocks, and why; empty if neither did."""
    failed_arm: str = ""
    """Who failed: the arm, its control, or the control's copy (with ′); empty if neither did."""
    alarm: str = ""
    """The A/A alarm of the study as a clause; empty if there is none."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """{reason: blocks that do not count}, of a contrast with a verdict."""
    copied: str = ""
    """The arm whose two copies are the A/A comparison, where that is not the control."""
    facts: tuple[Fact, ...] = ()
    """What the verdict rests on beside these numbers: see the rules."""
    unadjusted: tuple[float, float | None, float | None] | None = None
    """Ratio and interval of the values before they were adjusted for the host's speed, where they were."""
