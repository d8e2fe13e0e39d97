"""What keeps contrasts from an answer: an arm that failed, a control that differs from its own copy. Frozen; no I/O."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mydyno.model.frozen_record import Record, is_empty

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


class CopiesDiffer(Record):
    """An A/A alarm: two copies of an arm differ at a step, although they are identical."""

    control: str = ""
    step: str = ""
    kind: Literal["metric", "event", "sessions"] = "metric"
    """What `of` is: a metric with verdicts or a cost, something counted or profiled, or what sessions do."""
    of: str = ""
    difference: float | None = None
    """Of a metric, as a share of 1; its sign has no meaning."""
    p: float | None = None
    """The same, adjusted over all steps and metrics."""


Alarm = Annotated[CopiesDiffer | None, Field(exclude_if=is_empty)]
"""None: the copies do not differ."""
