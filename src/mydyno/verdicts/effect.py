"""Input of the verdicts: observations, and families of contrasts. Their output is model/stored/summary.EffectRecord."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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
