"""What a difference came with: the only thing a report may say about its mechanism.

Never "because": that needs an arm which manipulates the mechanism itself. Which metrics are shown is fixed before the
study (they are the secondary metrics that the experiment names); picking the striking ones afterwards would invent a
story.
"""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.verdicts.effect import Effect, Metric, Verdict
from mydyno.verdicts.words import listing, phrase, signed


def sentence(effect: Effect, secondary: Sequence[Effect]) -> str:
    """The secondary effects of the same arm and step beside a `higher` or `lower` one; empty for any other verdict.

    Metrics without an interval are left out; the sentence is empty if none has one.
    """
    if effect.verdict not in (Verdict.HIGHER, Verdict.LOWER):
        return ""
    parts = tuple(
        f"{phrase(Metric(found.metric)).noun} {signed(found.ratio)} [{signed(found.ci_low)}, {signed(found.ci_high)}]"
        for found in secondary
        if (found.arm, found.step) == (effect.arm, effect.step)
        and found.ratio is not None
        and found.ci_low is not None
        and found.ci_high is not None
    )
    return f"This was accompanied by {listing(parts)} (exploratory; no cause is shown)." if parts else ""
