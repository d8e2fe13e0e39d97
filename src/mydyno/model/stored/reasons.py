"""What a verdict or a conclusion rests on, without words; what keeps contrasts from an answer; why a run or a step does
not count: the validity check that failed, the instance, and what was found. Frozen; no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from mydyno.language import agreed
from mydyno.model.frozen_record import Record, is_empty

Because = Literal[
    "exploratory", "undecided", "both within", "equivalent", "contains both", "inside", "near", "another size",
    "outside", "opposite",
]  # fmt: skip


class Figure(Record):
    """A ratio with its 95 % interval over blocks; without `low` and `high` there are too few blocks."""

    ratio: float | None
    low: float | None
    high: float | None


class FactEffect(Record):
    """An effect with its verdict."""

    step: str
    arm: str
    control: str
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    verdict: str


class ComparedRatio(Record):
    """A published ratio beside this study's interval.

    `because`: nothing was decided ("exploratory", "undecided"); "both within" the margin; an "equivalent" interval that
    does not reach the published ratio, or one that "contains both" it and no change; the published ratio is "inside" or
    "outside" the interval, within the margin of the ratio measured ("near"), in the same direction with "another size",
    or in the "opposite" direction.
    """

    because: Because
    published: float
    verdict: str
    low: float
    high: float
    margin: float


FactValue = str | int | float | Figure | FactEffect | ComparedRatio


class Fact(Record):
    """One fact: what it is, as wording/ knows it, and its values. Shares of 1 are float."""

    fact: str
    values: dict[str, FactValue] = Field(default_factory=dict)
    """By name."""


def fact(name: str, **values: FactValue) -> Fact:
    """The fact with its values by name."""
    return Fact(fact=name, values=values)


NOTHING_SERVED = "it served nothing"
"""Why a server failed whose load ran, but of which no transaction ended."""
NOTHING_ENDED = "no transaction ended"
"""Why an arm failed at a step of which none did, in any slice."""
GIVEN_UP = "not started: it failed in the previous blocks"
"""Why an arm has no run in a block of which nothing was tried: the cause is that of the blocks before."""


class ArmFailure(Record):
    """One side of a contrast failed in blocks in which the other one did not."""

    who: Literal["arm", "control", "copy"]
    """The arm, its control, or the control's copy."""
    blocks: int
    """In which it failed, of `tried`."""
    tried: int
    why: dict[str, int]
    """{reason: blocks}, the most frequent first."""


CopiesKind = Literal["metric", "event", "sessions"]


class CopiesDiffer(Record):
    """An A/A alarm: two copies of an arm differ at a step, although they are identical."""

    control: str = ""
    step: str = ""
    kind: CopiesKind = "metric"
    """What `of` is: a metric with verdicts or a cost, something counted or profiled, or what sessions do."""
    of: str = ""
    difference: float | None = None
    """Of a metric, as a share of 1; its sign has no meaning."""
    p: float | None = None
    """The same, adjusted over all steps and metrics."""


Alarm = Annotated[CopiesDiffer | None, Field(exclude_if=is_empty)]
"""None: the copies do not differ."""


ValidityCheck = Literal[
    "unproved",
    "out_of_memory",
    "swap",
    "errors",
    "ignored_errors",
    "counters",
    "not_found",
    "driver_health",
    "driver_cpu",
    "throttled",
    "steady",
    "start_spread",
    "steal",
    "no_valid_step",
    "failed",
    "unfinished",
    "other",
]

CHECK_LABELS: dict[ValidityCheck, str] = {
    "unproved": "treatment not proved",
    "out_of_memory": "out of memory",
    "swap": "swap",
    "errors": "errors",
    "ignored_errors": "ignored errors",
    "counters": "counters disagree",
    "not_found": "rows or keys not found",
    "driver_health": "invalid by the driver's own checks",
    "driver_cpu": "driver saturated",
    "throttled": "CPU quota used up",
    "steady": "not steady",
    "start_spread": "no common start",
    "steal": "unequal steal",
    "no_valid_step": "no load level is valid",
    "failed": "failed",
    "unfinished": "not finished",
    "other": "other reasons",
}
"""The words for each validity check in reports, and the name under which reasons are counted."""
SELF_EXPLANATORY: tuple[ValidityCheck, ...] = ("failed", "unfinished", "other")
"""Validity checks whose texts are error messages, which need no label before them."""


class Reason(Record):
    """One failed validity check. Reasons are counted by it, never by their text."""

    check: ValidityCheck
    instance: int | None = None
    """The instance that failed it, where the run has several; None: the whole run or step."""
    text: str
    """What was found, without its label."""

    @property
    def label(self) -> str:
        """The validity check in words."""
        return CHECK_LABELS[self.check]

    @property
    def sentence(self) -> str:
        """Label, instance and text, e.g. "not steady: instance 2: throughput drifts by +5.2 %"."""
        label = () if self.check in SELF_EXPLANATORY else (self.label,)
        instance = () if self.instance is None else (f"instance {self.instance}",)
        return ": ".join((*label, *instance, agreed(self.text)))


def joined(reasons: Iterable[Reason]) -> str:
    """All reasons on one line; empty without any."""
    return "; ".join(reason.sentence for reason in reasons)
