"""A whole capacity search on a fake host: rates, journal, resume, verdicts and words; no server."""

from __future__ import annotations

from math import log
from pathlib import Path
from random import Random

import numpy as np
import pytest

from mydyno.drivers.held import SliceOrder
from mydyno.errors import HostError
from mydyno.execution.interleaved.capacity_search import judged
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, StepSpec
from mydyno.model.definition.special_steps import CAPACITIES, with_search_defaults
from mydyno.model.definition.specs import SearchSpec
from mydyno.model.stored.records import SliceRecord
from mydyno.reports.page import render_page
from mydyno.store.samples import SLICES_FILE, read_slices
from mydyno.study import run_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment
from tests.support.queue_server import Queue
from tests.support.stored_schemas import check
from tests.support.worded import worded

pytestmark = pytest.mark.slow

P99 = SearchSpec(metric="latency_p99_us", limit=0.02)
STEP = StepSpec(workload="oltp_read_write", connections=(16,), warmup=1, measure=20, search=P99)


def search(**design: object) -> Experiment:
    plain = {"kind": "interleaved", "blocks": 6, "cycles": 14, "quiet_wait": 0, "slice": 2, "washout": 0.5}
    verdict = {"primary": CAPACITIES["rate"], "cost": False}
    return experiment(("glibc", "jemalloc"), steps=(STEP,), verdict=verdict, design={**plain, **design})


def usual_slice(objective: SearchSpec) -> float:
    """The slice of an experiment that does not set it."""
    tree = {"steps": [{"search": {"metric": objective.metric, "limit": objective.limit}}]}
    return float(with_search_defaults(tree)["design"]["slice"])


def carries(script: Script, gain: float, noise: float, seed: int = 1) -> None:
    random = Random(seed)
    script.capacity = lambda arm, _copy, _order: (
        3000.0 * (1 + gain * (arm == "jemalloc")) * random.lognormvariate(0, noise)
    )


async def test_the_capacity_and_the_ratio_between_arms_are_found_and_said_first(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    carries(script, 0.5, 0.05)
    request = Request(search(), "name = 'fake'", tmp_path / "studies")
    folder, summary = await run_study(request, paths, Watched(script), opener(script))
    check(folder.path)
    of = {record.arm: record for record in summary.capacities}
    assert of["glibc"].capacity == pytest.approx(3000, rel=0.05)
    assert of["jemalloc"].capacity == pytest.approx(4500, rel=0.05)
    assert of["glibc"].ci_low is not None
    assert of["glibc"].ci_high is not None
    assert of["glibc"].ci_low < 3000 < of["glibc"].ci_high
    assert 0.02 < of["glibc"].sigma < 0.12
    (effect,) = summary.effects
    assert (effect.metric, effect.verdict) == (CAPACITIES["rate"], "higher")
    assert effect.ratio == pytest.approx(1.5, rel=0.05)
    answer = worded(folder).answer
    assert "glibc sustains" in answer[0]
    assert "p99 ≤ 20 ms" in answer[0]
    assert "jemalloc sustains" in answer[1]
    page = render_page(folder)
    assert "standard deviation of" in page
    assert page.count("load of each slice") >= 2, "a chart for each arm"
    slices = read_slices(folder.block_path(2) / SLICES_FILE)
    rates = [one.search.rate for one in slices if one.search]
    assert len(rates) == 3 * 14
    assert all(1500 < rate < 9000 for rate in rates), "later blocks begin where the earlier ones ended"


async def test_how_many_connections_it_carries_is_a_whole_number_with_their_throughput(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    random = Random(3)
    script.capacity = lambda arm, _copy, _order: 7.4 * (1 + (arm == "jemalloc")) * random.lognormvariate(0, 0.05)
    step = STEP.model_copy(update={"connections": (64,), "search": P99.model_copy(update={"of": "connections"})})
    asked = search().model_copy(update={"steps": (step,)})
    asked = asked.model_copy(
        update={"verdict": asked.verdict.model_copy(update={"primary": (CAPACITIES["connections"],)})}
    )
    folder, summary = await run_study(
        Request(asked, "name = 'fake'", tmp_path / "studies"), paths, Watched(script), opener(script)
    )
    check(folder.path)
    of = {record.arm: record for record in summary.capacities}
    assert (round(of["glibc"].capacity), round(of["jemalloc"].capacity)) == (7, 15)
    assert of["glibc"].tps is not None
    (effect,) = summary.effects
    assert (effect.metric, effect.verdict) == (CAPACITIES["connections"], "higher")
    answer = worded(folder).answer
    assert answer[0].startswith("glibc sustains 7 connections, ")
    assert "transactions/s under p99 ≤ 20 ms" in answer[0]
    assert "Capacity in connections" in render_page(folder)
    slices = read_slices(folder.block_path(1) / SLICES_FILE)
    assert all(one.search and one.search.rate is None and 1 <= one.search.level <= 64 for one in slices)


async def test_one_server_alone_has_a_capacity(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    carries(script, 0.0, 0.05)
    asked = search(blocks=3)
    alone = asked.model_copy(update={"arms": asked.arms[:1]})
    folder, summary = await run_study(
        Request(alone, "name = 'fake'", tmp_path / "studies"), paths, Watched(script), opener(script)
    )
    assert summary.effects == ()
    answer = worded(folder).answer
    assert answer[0].startswith("glibc sustains ")
    assert "transactions/s (" in answer[0]
    assert len(answer) == 1
    assert "Capacity</small> glibc sustains " in render_page(folder)


async def test_the_capacity_of_a_queue_is_found_with_the_usual_length_of_a_slice(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    random = np.random.default_rng(1)
    queues = {"glibc": Queue(1000.0), "jemalloc": Queue(2000.0)}

    def carried(arm: str, _copy: int, order: SliceOrder) -> float:
        rate = order.rate or 0.0
        record = queues[arm].record(random, rate, order.washout_s, order.measure_s)
        return rate if judged(P99, SliceOrder("s", 1, 0.5, 2.0, rate), record).met else 0.0

    script.capacity = carried
    assert usual_slice(P99) == 5.0
    request = Request(search(slice=usual_slice(P99), cycles=12), "name = 'fake'", tmp_path / "studies")
    _, summary = await run_study(request, paths, Watched(script), opener(script))
    found = {record.arm: record.capacity for record in summary.capacities}
    # The response times of this queue are exponential with the mean 1 / (served - rate).
    truth = {arm: queue.served_per_s - log(100) / P99.limit for arm, queue in queues.items()}
    assert truth["glibc"] == pytest.approx(770, abs=1)
    for arm, expected in truth.items():
        assert found[arm] == pytest.approx(expected, rel=0.05), arm
    assert summary.effects[0].ratio == pytest.approx(truth["jemalloc"] / truth["glibc"], rel=0.05)


async def test_arms_that_carry_the_same_are_not_called_different(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    carries(script, 0.0, 0.2)
    request = Request(search(), "name = 'fake'", tmp_path / "studies")
    folder, summary = await run_study(request, paths, Watched(script), opener(script))
    assert [effect.verdict for effect in summary.effects] == ["inconclusive"]
    assert "inconclusive" in worded(folder).answer[1]
    assert "<h3>Capacity</h3>" in render_page(folder), "what is not decided is no title"


async def test_a_server_that_never_meets_the_objective_has_no_capacity(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    carries(script, 0.0, 0.05)
    found = script.capacity
    script.capacity = lambda arm, copy, order: 0.0 if arm == "jemalloc" else found(arm, copy, order)
    request = Request(search(), "name = 'fake'", tmp_path / "studies")
    folder, summary = await run_study(request, paths, Watched(script), opener(script))
    assert [record.arm for record in summary.capacities] == ["glibc"]
    assert [effect.verdict for effect in summary.effects] == ["not_measurable"]
    assert "jemalloc" in worded(folder).answer[1]

    def missed(one: SliceRecord) -> bool:
        return one.search is not None and not one.search.met and one.search.because == "latency"

    own = [one for one in read_slices(folder.block_path(1) / SLICES_FILE) if one.arm == "jemalloc"]
    assert own
    assert all(missed(one) for one in own)


async def test_a_search_without_the_interleaved_design_is_refused_before_any_work(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    arms = tuple(f"arm-{number}" for number in range(60))
    too_many = experiment(
        arms, steps=(STEP,), design={"kind": "auto"}, server={"name": "mariadb-10.11",
        "variables": {"innodb_buffer_pool_size": "64G"}},
    )  # fmt: skip
    with pytest.raises(HostError, match=r"steps\.search"):
        await run_study(Request(too_many, "", tmp_path / "studies"), paths, Watched(script), opener(script))
    assert not script.events
