"""Which group executes which block, on workers without hosts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from mydyno.errors import StudyError
from mydyno.fleet.cluster import Cluster, GroupLostError, Leases
from mydyno.store.logs import Journal


@pytest.mark.slow
async def test_every_block_ends_once_although_groups_are_lost() -> None:
    names = [f"vm{number:02d}" for number in range(1, 21)]
    random = Random(4)
    failing = set(random.sample(names, 4))
    lost: set[str] = set()
    executed: Counter[int] = Counter()
    by_group: Counter[str] = Counter()

    async def work(group: str, block: int) -> str:
        await asyncio.sleep(random.uniform(0, 0.01))
        if group in failing and by_group[group] >= 2:
            lost.add(group)
            raise GroupLostError(group)
        by_group[group] += 1
        executed[block] += 1
        return f"{group} {block}"

    results = {}
    async with Cluster(names, work) as cluster:
        async for block, result in cluster.map(range(1, 201)):
            assert block not in results
            results[block] = result
        assert lost and set(cluster.live) == set(names) - lost
    assert sorted(results) == list(range(1, 201))
    assert all(result.endswith(f" {block}") for block, result in results.items())
    assert set(executed.values()) == {1}
    assert all(by_group[name] == 2 for name in lost)


@pytest.mark.slow
async def test_every_block_is_committed_once_although_lost_groups_deliver_late_copies(tmp_path: Path) -> None:
    """20 groups, 5 % of them lost for good, and copies of what they were given arrive while others execute it."""
    names = [f"vm{number:02d}" for number in range(1, 21)]
    journal = Journal(tmp_path / "journal.jsonl")
    leases, random, lost = Leases(journal), Random(5), set(names[:1])
    late: list[tuple[int, int, str]] = []
    refused = 0

    def commit(block: int, attempt: int, group: str) -> bool:
        if not leases.is_current(block, attempt):
            return False
        leases.committed(block, attempt, group)
        return True

    async def work(group: str, block: int) -> None:
        nonlocal refused
        attempt = leases.lease(block, group)
        await asyncio.sleep(random.uniform(0.01, 0.02))
        if group in lost:
            late.append((block, attempt, group))
            leases.lost(block, attempt, group, "silent")
            raise GroupLostError(group)
        refused += sum(not commit(*copy) for copy in [*late, (block, attempt, group), *late])

    async with Cluster(names, work) as cluster:
        ended = [block async for block, _ in cluster.map(range(1, 101))]
    assert len(late) == 1 and refused > 20
    committed = [event["block"] for event in journal.read() if event["event"] == "block_committed"]
    assert sorted(committed) == sorted(ended) == list(range(1, 101))


async def test_a_group_that_is_back_takes_blocks_again() -> None:
    failing = {"a"}

    async def work(group: str, _: int) -> str:
        if group in failing:
            raise GroupLostError(group)
        await asyncio.sleep(0.01)
        return group

    async with Cluster(["a", "b"], work) as cluster:
        assert [result async for _, result in cluster.map([1, 2, 3])] == ["b"] * 3
        assert cluster.live == ["b"]
        failing.clear()
        cluster.add("a")
        assert {result async for _, result in cluster.map(range(4, 12))} == {"a", "b"}


async def test_without_any_group_left_the_study_ends() -> None:
    async def work(group: str, _: int) -> None:
        raise GroupLostError(group)

    async with Cluster(["a", "b"], work) as cluster:
        with pytest.raises(StudyError, match="every host group is lost"):
            async for _ in cluster.map([1, 2]):
                raise AssertionError


async def test_without_a_live_group_the_study_waits_for_those_that_may_return() -> None:
    lost: list[str] = []
    said: list[str] = []

    async def work(group: str, block: int) -> int:
        if not lost:
            lost.append(group)
            raise GroupLostError(group)
        return block

    async with Cluster(["a"], work, lambda: lost, said.append) as cluster:
        returning = asyncio.create_task(add_when(cluster, "a", lambda: bool(said)))
        assert [block async for block, _ in cluster.map([1, 2])] == [1, 2]
        await returning
    assert said == ["no host group is left: waiting up to 15 min for a"]


async def add_when(cluster: Cluster, group: str, condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)
    cluster.add(group)


async def test_a_study_does_not_wait_for_ever_for_its_groups() -> None:
    async def work(group: str, _: int) -> None:
        raise GroupLostError(group)

    async with Cluster(["a"], work, lambda: ["a"], most_waiting_s=0.0) as cluster:
        with pytest.raises(StudyError, match="every host group is lost"):
            async for _ in cluster.map([1]):
                raise AssertionError


async def test_an_error_of_the_work_ends_the_study_with_its_own_words() -> None:
    async def work(_group: str, block: int) -> int:
        if block == 2:
            raise StudyError("block 2 was lost 3 times")
        return block

    async with Cluster(["a"], work) as cluster:
        with pytest.raises(StudyError, match="block 2 was lost 3 times"):
            async for _ in cluster.map([1, 2, 3]):
                continue


async def test_no_work_is_left_when_a_study_ends() -> None:
    """What other groups execute is cancelled, and has ended, with an error of one and where nobody asks for more."""
    begun: set[str] = set()
    ended: list[str] = []

    async def work(group: str, block: int) -> int:
        begun.add(group)
        if group == "a":
            while "b" not in begun:
                await asyncio.sleep(0)
            return block
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(group)
        return block

    async with Cluster(["a", "b"], work) as cluster:
        async for block, _ in cluster.map([1, 2]):
            assert block == 1
            break
    assert ended == ["b"]
