"""The order of a bisection is git bisect's own: lines, merges and skipped commits, and again from its marks."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from mydyno.bisect.bisection import Walk, count_commits
from mydyno.errors import UserError
from mydyno.hosts.local import LocalHost
from mydyno.model.stored.bisection import Outcome
from tests.support.memcached_commits import commit, git, new_repository

HOST = LocalHost("tests", None)


@pytest.fixture
def line(tmp_path: Path) -> tuple[Path, list[str]]:
    """A repository with twelve commits in a line."""
    repository = new_repository(tmp_path / "line")
    return repository, [commit(repository, f"Commit {number}") for number in range(12)]


async def walked(walk: Walk, outcomes: dict[str, Outcome]) -> list[str]:
    """The commits that were named, each marked as it is."""
    order = []
    while (name := await walk.next()) is not None:
        order.append(name)
        await walk.mark(name, outcomes[name])
    return order


async def test_a_line_is_walked_as_git_bisect_walks_it(line: tuple[Path, list[str]], tmp_path: Path) -> None:
    repository, commits = line
    outcomes: dict[str, Outcome] = {name: "bad" if at >= 7 else "good" for at, name in enumerate(commits)}
    walk = Walk(tmp_path / "walk", repository, HOST)
    await walk.begin(commits[0], commits[-1])
    order = await walked(walk, outcomes)
    assert await walk.remaining() == [commits[7]]
    script = tmp_path / "is-good"
    script.write_text(f"#!/bin/sh\ngit rev-parse HEAD >> {tmp_path}/order\n"
                      f"case $(git rev-parse HEAD) in {'|'.join(commits[7:])}) exit 1;; esac\n")  # fmt: skip
    script.chmod(0o755)
    git(repository, "bisect", "start", commits[-1], commits[0])
    assert f"{commits[7]} is the first bad commit" in git(repository, "bisect", "run", str(script))
    assert order == (tmp_path / "order").read_text().split()


@pytest.mark.slow
async def test_the_same_marks_lead_to_the_same_commits_again(line: tuple[Path, list[str]], tmp_path: Path) -> None:
    repository, commits = line
    outcomes: dict[str, Outcome] = {name: "bad" if at >= 9 else "good" for at, name in enumerate(commits)}
    outcomes[commits[5]] = outcomes[commits[9]] = "skipped"
    whole = Walk(tmp_path / "walk", repository, HOST)
    await whole.begin(commits[0], commits[-1])
    order = await walked(whole, outcomes)
    assert await whole.remaining() == [commits[9], commits[10]], (
        "the skipped one, and the first that is known to be bad"
    )
    again = Walk(tmp_path / "walk", repository, HOST)
    await again.begin(commits[0], commits[-1])
    for name in order[:2]:
        await again.mark(name, outcomes[name])
    assert await walked(again, outcomes) == order[2:]


async def test_where_every_commit_is_skipped_the_whole_range_is_left(
    line: tuple[Path, list[str]], tmp_path: Path
) -> None:
    repository, commits = line
    walk = Walk(tmp_path / "walk", repository, HOST)
    await walk.begin(commits[3], commits[6])
    assert len(await walked(walk, dict.fromkeys(commits, "skipped"))) == 2
    assert await walk.remaining() == commits[4:7]


async def test_one_commit_is_found_without_a_comparison(line: tuple[Path, list[str]], tmp_path: Path) -> None:
    repository, commits = line
    walk = Walk(tmp_path / "walk", repository, HOST)
    await walk.begin(commits[3], commits[4])
    assert await walk.next() is None
    assert await walk.remaining() == [commits[4]]
    found = await walk.commit(commits[4])
    assert (found.subject, found.author) == ("Commit 4", "Ada Dev <ada@example.org>")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_every_culprit_of_a_history_with_merges_is_found(tmp_path: Path, seed: int) -> None:
    repository = new_repository(tmp_path / "merged")
    random = Random(seed)
    commit(repository, "Begin")
    for number in range(3):
        git(repository, "checkout", "--quiet", "-b", f"side-{number}")
        for _ in range(random.randrange(1, 4)):
            commit(repository, f"Side {number}")
        git(repository, "checkout", "--quiet", "main")
        commit(repository, f"Main {number}")
        git(repository, "merge", "--quiet", "--no-ff", "--message", f"Merge {number}", f"side-{number}")
    commits = git(repository, "rev-list", "--reverse", "HEAD").split()
    good, bad = git(repository, "rev-list", "--max-parents=0", "HEAD"), commits[-1]
    culprit = random.choice(commits[1:])
    having = set(git(repository, "rev-list", f"{culprit}..HEAD", "--ancestry-path").split()) | {culprit}
    outcomes: dict[str, Outcome] = {name: "bad" if name in having else "good" for name in commits}
    walk = Walk(tmp_path / "walk", repository, HOST)
    await walk.begin(good, bad)
    await walked(walk, outcomes)
    assert await walk.remaining() == [culprit]


async def test_ends_that_do_not_fit_are_refused(line: tuple[Path, list[str]]) -> None:
    repository, commits = line
    assert await count_commits(commits[2], commits[9], repository, HOST) == 7
    with pytest.raises(UserError, match="are the same commit"):
        await count_commits(commits[2], commits[2], repository, HOST)
    with pytest.raises(UserError, match="comes after --bad") as error:
        await count_commits(commits[9], commits[2], repository, HOST)
    assert error.value.hint.endswith("were the two exchanged?")
    git(repository, "checkout", "--quiet", "-b", "side", commits[4])
    side = commit(repository, "Aside")
    with pytest.raises(UserError, match="is not an ancestor") as error:
        await count_commits(side, commits[9], repository, HOST)
    assert commits[4][:12] in error.value.hint
    git(repository, "checkout", "--quiet", "--orphan", "alone")
    alone = commit(repository, "Begin anew")
    with pytest.raises(UserError, match="share no commit: their histories are unrelated"):
        await count_commits(alone, commits[9], repository, HOST)
