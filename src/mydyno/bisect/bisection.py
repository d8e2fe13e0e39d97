"""The order of a bisection: the ends, then commit after commit as git bisect names them, then the result.

The order of the commits is that of `git bisect` itself, in a bare repository of its own that borrows the cache's
objects. It receives good, bad or skip for each commit, and names the next one in BISECT_HEAD. Every finished comparison
is in the journal. The same marks lead to the same commits again, so an interrupted bisection is continued by repeating
its marks.

The named commit may not account for all of what the ends differ by. It and the bad end are each compared with the good
end: if their intervals do not overlap, a later commit changed the metric again (it made it worse still, or undid a
part), and the bisection continues.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from mydyno.bisect.compare import (
    COMPARED_EVENT,
    ENDS_EVENT,
    BisectFolder,
    Tools,
    compare_commit,
    compare_ends,
    is_higher_better,
)
from mydyno.errors import HostError, UserError
from mydyno.hosts.local import Completed, LocalHost
from mydyno.model.stored.bisection import (
    BisectRecord,
    BisectResult,
    Commit,
    Comparison,
    Ends,
    Outcome,
    Remainder,
    State,
)
from mydyno.servers.compiled.source import git

WORDS: dict[Outcome, str] = {"good": "good", "bad": "bad", "skipped": "skip"}


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


class Walk:
    """One bisection of a repository. begin() first."""

    def __init__(self, folder: Path, clone: Path, host: LocalHost, first_parent: bool = False) -> None:
        self._folder = folder
        self._clone = clone
        self._host = host
        self._first_parent = ["--first-parent"] if first_parent else []
        self._good = ""
        self._bad = ""
        self._marks: dict[str, Outcome] = {}

    async def begin(self, good: str, bad: str) -> None:
        """Start between two commits. Raises HostError with git's words."""
        shutil.rmtree(self._folder, ignore_errors=True)
        await git(
            self._host, ["clone", "--quiet", "--bare", "--shared", str(self._clone), str(self._folder)],
            self._folder.parent,
        )  # fmt: skip
        self._good, self._bad, self._marks = good, bad, {}
        await self._git(["bisect", "start", "--no-checkout", *self._first_parent, bad, good])

    async def mark(self, commit: str, outcome: Outcome) -> None:
        """What a commit is. Raises HostError."""
        self._marks[commit] = outcome
        # git bisect ends with code 2 when only skipped commits are left: remaining() shows that.
        done = await self._git(["bisect", WORDS[outcome], commit], check=False)
        if done.exit_code not in (0, 2):
            raise HostError(f"git bisect {WORDS[outcome]} {commit[:12]} failed: {done.output.strip()[-400:]}")

    async def next(self) -> str | None:
        """The commit to compare next; None where every remaining one is known or skipped."""
        remaining = await self.remaining()
        if not [commit for commit in remaining[:-1] if commit not in self._marks]:
            return None
        head = (await self._git(["rev-parse", "--verify", "--quiet", "BISECT_HEAD"])).output.strip()
        if head in self._marks:
            raise HostError(f"git bisect names {head[:12]} again, which is {self._marks[head]}")
        return head

    async def remaining(self) -> list[str]:
        """The commits of which one is the first bad one, oldest first; the last is known to be bad."""
        refs = (await self._git(["for-each-ref", "--format=%(refname) %(objectname)", "refs/bisect"])).output.split()
        found = dict(zip(refs[::2], refs[1::2], strict=True))
        good = [name for ref, name in found.items() if ref.startswith("refs/bisect/good-")] or [self._good]
        bad = found.get("refs/bisect/bad", self._bad)
        listed = await self._git(["rev-list", "--topo-order", "--reverse", *self._first_parent, bad, "--not", *good])
        return listed.output.split()

    async def successor(self, commit: str, bad: str) -> str:
        """The next commit on the way from a commit to a later one. Raises HostError."""
        listed = await self._git(
            ["rev-list", "--topo-order", "--reverse", "--ancestry-path", *self._first_parent, f"{commit}..{bad}"]
        )
        return listed.output.split()[0]

    async def commit(self, name: str) -> Commit:
        """What git knows of a commit."""
        return await describe(name, self._folder, self._host)

    async def _git(self, arguments: list[str], check: bool = True) -> Completed:
        return await git(self._host, arguments, self._folder, check)


async def describe(name: str, repository: Path, host: LocalHost) -> Commit:
    """What a repository knows of a commit."""
    shown = await git(host, ["show", "--no-patch", "--format=%H%x00%cI%x00%an <%ae>%x00%s", name, "--"], repository)
    found, date, author, subject = shown.output.strip("\n").split("\0", 3)
    return Commit(hash=found, subject=subject, author=author, date=date)


async def count_commits(good: str, bad: str, clone: Path, host: LocalHost, first_parent: bool = False) -> int:
    """The commits after good, up to and with bad. Raises UserError if good is no ancestor of bad."""
    if good == bad:
        raise UserError(f"--good and --bad are the same commit, {good[:12]}")
    ancestor = await git(host, ["merge-base", "--is-ancestor", good, bad], clone, check=False)
    if ancestor.exit_code:
        swapped = await git(host, ["merge-base", "--is-ancestor", bad, good], clone, check=False)
        if swapped.exit_code == 0:
            raise UserError(
                f"--good {good[:12]} comes after --bad {bad[:12]}",
                "the good commit must be the older one; were the two exchanged?",
            )
        base = (await git(host, ["merge-base", good, bad], clone, check=False)).output.strip()
        if not base:
            raise UserError(
                f"--good {good[:12]} and --bad {bad[:12]} share no commit: their histories are unrelated",
                "are both of one project? a shallow clone lacks history: git fetch --unshallow",
            )
        raise UserError(
            f"--good {good[:12]} is not an ancestor of --bad {bad[:12]}",
            f"the newest commit that both have is {base[:12]}: try it as --good",
        )
    option = ["--first-parent"] if first_parent else []
    return int((await git(host, ["rev-list", "--count", *option, bad, f"^{good}"], clone)).output.strip())
