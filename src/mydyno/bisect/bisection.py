"""The order of a bisection: the ends, then commit after commit as git bisect names them, then the result.

Every finished comparison is in the journal; an interrupted bisection repeats their marks and continues.
"""

from __future__ import annotations

from pathlib import Path

from mydyno.bisect.compare import Tools, compare_commit, compare_ends, is_higher_better
from mydyno.bisect.folder import COMPARED_EVENT, ENDS_EVENT, BisectFolder
from mydyno.bisect.remainder import remainder_of
from mydyno.bisect.walk import Walk
from mydyno.hosts.local import LocalHost
from mydyno.model.stored.bisection import BisectResult, Comparison, Ends, State


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
