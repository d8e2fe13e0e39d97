"""What `mydyno compare` and `mydyno history` print with `--format json`: studies, arms of one, and an experiment on one
host.

Frozen; no I/O.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field

from mydyno.model.frozen_record import OfContrast, Record, is_empty
from mydyno.model.stored.reasons import ArmFailure
from mydyno.model.stored.summary import EffectRecord, StepLevel

VerdictWord = Literal["higher", "lower", "equivalent", "inconclusive", "not_measurable"]


class CopiesNoise(Record):
    """How far the two copies of a study's control were apart, for one metric at one step."""

    metric: str
    step: str
    n: int
    """Blocks with both copies."""
    ratio: float
    """A′ / A, the geometric mean over blocks."""
    ci_low: float | None
    ci_high: float | None
    """95 % t interval of it; None for one block."""
    typical: float
    """Median absolute difference between the copies over the blocks, as a share: 0.01 is 1 %."""


class ComparedStudy(Record):
    """One of the studies, with what it asked and answered."""

    label: str
    """A, B, …"""
    study: str
    experiment: str
    question: str
    answer: tuple[str, ...]
    scope: str
    created_unix_ns: int
    server: str
    """The servers of its arms, e.g. "MariaDB 10.11.19"."""
    host: str
    state: Literal["complete", "partial", "failed"]
    blocks: int
    """Blocks whose effects are compared."""
    control: str
    noise: tuple[CopiesNoise, ...] = ()
    """Noise of the primary metric and of the cost, at each step."""
    alarm: str = ""
    """The A/A alarm as a clause; empty if there is none."""
    notes: tuple[str, ...] = ()
    """What limits the study: unfinished, no interim analysis due."""


class Setting(Record):
    """One setting with its value in each study, in order; None: it is not recorded there."""

    name: str
    values: tuple[str | None, ...]


class SettingGroup(Record):
    """Settings of one kind: those that differ, and those that are equal in all studies."""

    name: str
    differing: tuple[Setting, ...]
    equal: tuple[Setting, ...]


class OwnEffect(Record):
    """An effect within one study."""

    n: int
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    verdict: VerdictWord | None = None
    failure: ArmFailure | None = Field(None, exclude_if=is_empty)
    """That arm or control failed; None if neither did."""

    @classmethod
    def of(cls, one: EffectRecord, **own: Any) -> Self:
        """As the study's report has it, with `own` fields beside it."""
        return cls.like(one, **{"failure": one.details.failure} | own)


class StudyEffect(OwnEffect):
    """That of one of the compared studies."""

    label: str


class EffectDifference(Record):
    """The effect in one study relative to that in another: a ratio of ratios, each to its own control."""

    first: str
    second: str
    """Labels of the studies: the ratio is that of `second` divided by that of `first`."""
    ratio: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    """Simultaneous 95 % interval (Bonferroni) with a verdict, else the unadjusted one."""
    freedom: int = 0
    """Degrees of freedom by Welch and Satterthwaite."""
    p: float | None = None
    """Adjusted by Bonferroni with a verdict, else unadjusted."""
    verdict: VerdictWord | None = None
    """None: exploratory."""
    reason: str = ""
    """Why it is not measurable, or what keeps it from being a difference."""
    sessions: int = 0
    """Comparable sessions of this effect on the host, these two among them."""
    session_sd: float | None = None
    """The sd between those sessions as a share of 1, which the interval contains; None: too few sessions."""


class ComparedEffect(OfContrast):
    """One contrast that all compared studies have, or of two studies with a common control."""

    primary: bool
    """Whether all studies have a verdict on it."""
    effects: tuple[StudyEffect, ...]
    differences: tuple[EffectDifference, ...]
    """Each later study against the first."""
    note: str = ""
    """What differs in the definition of arm or control."""


class IndirectEffect(Record):
    """An arm of one study against another arm of another one, over the control that both studies have."""

    metric: str
    step: str
    first_arm: str
    second_arm: str
    control: str
    difference: EffectDifference


class ControlLevel(Record):
    """The level of the control in one study relative to that in the first one: how far the sessions are apart."""

    metric: str
    step: str
    first: str
    second: str
    ratio: float
    ci_low: float | None
    ci_high: float | None
    """95 % interval from the spread of the control's level over the blocks of each session."""
    same_control: bool
    """Whether server, settings and treatments of the control are the same in both."""


class NotCompared(Record):
    """Something that has no common ground, and why."""

    what: str
    reason: str


class Comparison(Record):
    """A comparison of two or more studies."""

    format: int = 1
    studies: tuple[ComparedStudy, ...]
    comparable: bool
    """Whether at least one effect is in all studies, or arms have a common control."""
    answer: tuple[str, ...]
    conclusions: tuple[str, ...]
    """What may be concluded from this comparison, and what not."""
    settings: tuple[SettingGroup, ...]
    steps: tuple[StepLevel, ...]
    """The steps that the studies have in common."""
    margin: float
    """The smallest margin that the studies declare for the primary metric."""
    contrasts: int
    """Differences with a verdict, for which the error rate is held together."""
    alpha: float = 0.05
    effects: tuple[ComparedEffect, ...] = ()
    indirect: tuple[IndirectEffect, ...] = ()
    control_levels: tuple[ControlLevel, ...] = ()
    not_compared: tuple[NotCompared, ...] = ()


class ArmEffect(OwnEffect):
    """One arm against another of the same study, from the same blocks."""

    metric: str
    step: str
    arm: str
    against: str
    declared: bool
    """Whether the experiment declares this contrast; then interval and verdict are those of the study's report."""


class ArmComparison(Record):
    """A comparison of arms of one study."""

    format: int = 1
    study: ComparedStudy
    arms: tuple[str, ...]
    answer: tuple[str, ...]
    conclusions: tuple[str, ...]
    settings: tuple[SettingGroup, ...]
    """Treatments and server variables; the values are those of the arms, in order."""
    steps: tuple[StepLevel, ...]
    effects: tuple[ArmEffect, ...]


class HistoryPoint(Record):
    """One study's value in a series, with its own 95 % interval."""

    study: str
    created_unix_ns: int
    server: str
    mydyno_version: str
    n: int
    """Blocks."""
    value: float
    """An effect: arm divided by control. A level: the metric in its unit."""
    ci_low: float
    ci_high: float
    changed: tuple[str, ...] = ()
    """What differs from the study before: "server: MariaDB 10.11.18 → MariaDB 10.11.19"."""


class LevelChange(Record):
    """A lasting change in a series."""

    study: str
    """The first study of the new level."""
    before: str
    """The last study of the old level."""
    ratio: float
    """New level divided by the old one; of effects, ratio of ratios."""
    ci_low: float
    ci_high: float
    """Interval at 95 %, adjusted for the changes of its series."""
    changed: tuple[str, ...] = ()
    """What was recorded to differ between these two studies."""


class SeriesLevel(Record):
    """The common value of the studies between two changes."""

    first: str
    last: str
    studies: int
    value: float
    ci_low: float
    ci_high: float


class HistorySeries(Record):
    """One arm, step and metric over the studies, oldest first."""

    kind: Literal["effect", "level"]
    metric: str
    step: str
    arm: str
    control: str
    """The arm that an effect is relative to; empty for a level."""
    points: tuple[HistoryPoint, ...]
    missing: tuple[str, ...] = ()
    """Studies of the history that have no value here: the arm failed, is not in them, or has fewer than two blocks."""
    levels: tuple[SeriesLevel, ...]
    changes: tuple[LevelChange, ...]
    p: float | None
    """p-value of the test for any change in this series; None with fewer than four studies."""
    session_sd: float
    """Standard deviation between sessions beyond each one's own error, of the log: 0.01 is about 1 %."""
    detectable: float | None
    """The change in the middle of the series that would be found in about 80 % of cases, as a share."""
    sentence: str


class LeftOut(Record):
    """A study that is not part of the history, and why."""

    study: str
    reason: str


class History(Record):
    """All studies of one experiment on one host."""

    format: int = 2
    """Format 1 had `calibration`, over all studies of the host."""
    experiment: str
    question: str
    host: str
    answer: tuple[str, ...]
    studies: tuple[str, ...]
    """The studies that count, oldest first."""
    steps: tuple[StepLevel, ...]
    series: tuple[HistorySeries, ...]
    left_out: tuple[LeftOut, ...] = ()
    alpha: float = 0.05
    """The rate at which unchanged series show a change, over all series together."""
