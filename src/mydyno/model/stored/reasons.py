"""Why a run or a step does not count: the validity check that failed, the instance, and what was found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from mydyno.language import agreed
from mydyno.model.frozen_record import Record

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

    gate: ValidityCheck
    instance: int | None = None
    """The instance that failed it, where the run has several; None: the whole run or step."""
    text: str
    """What was found, without its label."""

    @property
    def label(self) -> str:
        """The validity check in words."""
        return CHECK_LABELS[self.gate]

    @property
    def sentence(self) -> str:
        """Label, instance and text, e.g. "not steady: instance 2: throughput drifts by +5.2 %"."""
        label = () if self.gate in SELF_EXPLANATORY else (self.label,)
        instance = () if self.instance is None else (f"instance {self.instance}",)
        return ": ".join((*label, *instance, agreed(self.text)))


def joined(reasons: Iterable[Reason]) -> str:
    """All reasons on one line; empty without any."""
    return "; ".join(reason.sentence for reason in reasons)
