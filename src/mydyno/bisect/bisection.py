"""The order of a bisection: the ends, then commit after commit as git bisect names them, then the result.

Every finished comparison is in the journal; an interrupted bisection repeats their marks and continues.

Whether the named commit accounts for what the ends differ by; if not, the bisection that continues.

The commit and the bad end are each compared with the good end. If their intervals do not overlap, a later commit
changed the metric again: it made it worse still, or undid a part.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from mydyno.bisect.compare import Tools, compare_commit, compare_ends, is_higher_better
from mydyno.bisect.folder import COMPARED_EVENT, ENDS_EVENT, BisectFolder
from mydyno.bisect.walk import Walk
from mydyno.hosts.local import LocalHost
from mydyno.model.stored.bisection import BisectRecord, BisectResult, Commit, Comparison, Ends, Remainder, State


async def run_bisection(folder: BisectFolder, clone: Path, host: LocalHost, tools: Tools) -> BisectResult:
    """Make what the bisection lacks; the result, also written to result.json.

    `clone` is a repository with all of its commits. Raises HostError and StudyError; what was finished is kept.
    """
    record = folder.record()
    walk = Walk(folder.repository, clone, host, record.first_parent)
    await walk.begin(record.good.hash, record.bad.hash)
    ends = folder.ends()
    if ends is None:
        tools.say(f"comparing the ends: {record.good.short} (good) and {record.bad.short} (bad)")
        ends = await compare_ends(folder, tools)
        folder.journal.append(ENDS_EVENT, ends=ends.model_dump(mode="json"))
    done = folder.comparisons()
    if ends.state == "differ":
        for comparison in done:
            await walk.mark(comparison.commit.hash, comparison.outcome)
        done = await _walk(folder, walk, ends, done, tools)
    result = await _result(folder, walk, ends, done)
    folder.write_result(result)
    return result


async def _walk(folder: BisectFolder, walk: Walk, ends: Ends, done: list[Comparison], tools: Tools) -> list[Comparison]:
    while (name := await walk.next()) is not None:
        commit, left = await walk.commit(name), await walk.remaining()
        folder.write_result(await _result(folder, walk, ends, done))
        tools.say(f"comparing {commit.short} ({commit.subject}): the first bad commit is one of {len(left)}")
        comparison = await compare_commit(folder, commit, ends, tools)
        folder.journal.append(COMPARED_EVENT, comparison=comparison.model_dump(mode="json"))
        done = [*done, comparison]
        why = f": {comparison.reason}" if comparison.reason else ""
        tools.say(f"{commit.short} is {comparison.outcome}{why}")
        await walk.mark(name, comparison.outcome)
    return done


async def _result(folder: BisectFolder, walk: Walk, ends: Ends, done: list[Comparison]) -> BisectResult:
    record = folder.record()
    left = await walk.remaining() if ends.state == "differ" else []
    state: State = ends.state if ends.state != "differ" else "range"
    first_bad, remainder, suspects = None, None, []
    higher_is_better = is_higher_better(record.metric)
    if ends.state == "differ" and await walk.next() is not None:
        state = "unfinished"
    elif len(left) == 1:
        state, first_bad = "found", await walk.commit(left[0])
        remainder = await remainder_of(record, ends, first_bad, done, walk, higher_is_better)
    else:
        suspects = [await walk.commit(name) for name in left]
    return BisectResult(
        bisection=record.bisection,
        state=state,
        first_bad=first_bad,
        remainder=remainder,
        suspects=tuple(suspects),
        ends=ends,
        comparisons=tuple(done),
        left=len(left) if state == "unfinished" else 0,
        better="higher" if higher_is_better else "lower",
    )


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
