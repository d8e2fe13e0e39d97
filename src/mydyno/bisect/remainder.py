"""Whether the named commit accounts for what the ends differ by; if not, the bisection that continues.

The commit and the bad end are each compared with the good end. If their intervals do not overlap, a later commit
changed the metric again: it made it worse still, or undid a part.
"""

from __future__ import annotations

import shlex

from mydyno.bisect.walk import Walk
from mydyno.model.stored.bisection import BisectRecord, Commit, Comparison, Ends, Remainder


async def remainder_of(
    record: BisectRecord, ends: Ends, first_bad: Commit, done: list[Comparison], walk: Walk, higher_is_better: bool
) -> Remainder | None:
    """What the named commit leaves to find; None if its effect and that of the ends can be one. Raises HostError.

    The bad end itself, which is named without a comparison of its own, leaves nothing.
    """
    named = next((one for one in done if one.commit.hash == first_bad.hash), None)
    bad = ends.comparison
    if named is None or named.low is None or named.high is None or bad.low is None or bad.high is None:
        return None
    if named.low <= bad.high and bad.low <= named.high:
        return None
    is_more = (named.high < bad.low) == higher_is_better
    # Where a part was undone, the bad end is better than the named commit: a search from there on would find nothing.
    good = await walk.successor(first_bad.hash, record.bad.hash) if is_more else first_bad.hash
    command = "" if good == record.bad.hash else command_between(record, good)
    return Remainder(named="more" if is_more else "less", command=command)


def command_between(record: BisectRecord, good: str) -> str:
    """The command of the bisection with its own options, from another good commit to the same bad one."""
    ends = {"--good": good[:12], "--bad": record.bad.short}
    given = list(record.command) or ["mydyno", "bisect", "--good", "", "--bad", "", record.experiment.name]
    for at, word in enumerate(given):
        option, equals, _ = word.partition("=")
        if option in ends and equals:
            given[at] = f"{option}={ends[option]}"
        elif option in ends:
            given[at + 1] = ends[option]
    return shlex.join(given)
