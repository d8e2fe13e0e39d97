"""Which group executes which block, on workers without hosts."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from mydyno.errors import StudyError
from mydyno.fleet.cluster import Cluster, GroupLostError


async def test_every_block_ends_once_although_groups_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
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
    assert list(tmp_path.iterdir()) == [], "Dask leaves no folder behind"


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
        await cluster.add("a")
        assert {result async for _, result in cluster.map(range(4, 12))} == {"a", "b"}


async def test_without_any_group_left_the_study_ends() -> None:
    async def work(group: str, _: int) -> None:
        raise GroupLostError(group)

    async with Cluster(["a", "b"], work) as cluster:
        with pytest.raises(StudyError, match="every host group is lost"):
            async for _ in cluster.map([1, 2]):
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
