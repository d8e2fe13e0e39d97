"""The random stream of a step: one for all arms of a block, and never the same again in a run."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from mydyno.execution.blocks import with_stream
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Scalar, Step
from mydyno.model.definition.plan import PlannedRun
from mydyno.study import run_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment


def step(workload: str = "oltp_read_write", connections: int = 4, **options: Scalar) -> Step:
    return Step(
        id=f"{workload}-{connections}", workload=workload, connections=connections, warmup_s=1, measure_s=2,
        driver="dynoload", options=options,
    )  # fmt: skip


def seed(asked: Step, design_seed: int = 1, block: int = 1, attempt: int = 1, restored: bool = True) -> Scalar:
    return with_stream(asked, design_seed, block, attempt, restored).options["rand_seed"]


def test_the_stream_follows_from_the_seed_of_the_design_alone() -> None:
    assert seed(step(range_size=5)) == seed(step())
    others = [
        seed(step(), design_seed=2),
        seed(step(), block=2),
        seed(step(), attempt=2),
        seed(step(connections=8)),
        seed(step("oltp_write_only")),
    ]
    assert len({seed(step()), *others}) == 6


def test_where_data_are_not_restored_each_stream_is_new() -> None:
    assert len({seed(step(), restored=False) for _ in range(20)}) == 20


@pytest.mark.parametrize("restored", [True, False])
def test_a_seed_that_the_experiment_says_is_taken(restored: bool) -> None:
    assert seed(step(rand_seed=7), restored=restored) == 7
    assert seed(step(rand_seed=0), restored=restored) not in (0, 7)


@pytest.mark.parametrize("workload", ["tpcc", "kv", "connect"])
def test_other_workloads_are_left_as_they_are(workload: str) -> None:
    asked = step(workload, seed=1)
    assert with_stream(asked, 1, 1, 1, True) is asked


async def test_all_arms_of_a_block_are_asked_the_same(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    streams: defaultdict[tuple[int, str], set[Scalar]] = defaultdict(set)

    def qps(run: PlannedRun | None, asked: Step, _second: int) -> float:
        assert run is not None
        streams[run.block, asked.id].add(asked.options["rand_seed"])
        return 1000.0 + _second % 2

    script.qps = qps
    request = Request(
        experiment(design={"blocks": 3}), "name = 'fake'", tmp_path / "studies", ("mydyno", "run", "fake")
    )
    await run_study(request, paths, Watched(script), opener(script))
    assert len(streams) == 6
    assert all(len(seeds) == 1 for seeds in streams.values())
    assert len(set.union(*streams.values())) == 6
