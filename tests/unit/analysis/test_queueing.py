"""The section on the queue: figures of made-up slices, the saturated resource, and counts that do not agree."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mydyno.analysis.queueing import (
    DISK,
    LINK,
    LOAD_APART,
    LOAD_CPU,
    SERVER_CPU,
    ArmQueue,
    DiskReadings,
    _cpus,
    analyse,
    sentences,
    table,
)
from mydyno.document.result import rate
from mydyno.model.definition.experiment import Experiment, StepSpec
from mydyno.model.definition.host_groups import HostGroup
from mydyno.model.stored.records import DriverResult, RunRecord, SliceRecord, StepRecord, StudyRecord
from mydyno.model.stored.summary import RunSummary, used_slices
from mydyno.results.values.blocks import slices_of_run
from tests.support.fake_script import experiment

OPEN = experiment(steps=(StepSpec(workload="oltp_read_only", connections=(8,), rate=(400.0,)),))
STEPS = OPEN.resolved_steps


def made(transactions: int = 800, server_cpu_s: float = 1.0, **more: object) -> list[SliceRecord]:
    plain = {
        "step": STEPS[0].id, "position": 1, "arm": "glibc", "started_unix_ns": 1, "length_s": 2.0, "block": 1,
        "transactions": transactions, "latency_us": {"mean": 15_000.0}, "service_us": 10_000.0,
        "server_cpu_s": server_cpu_s, "driver_cpu_s": 0.2,
        "rates": {"cpu_user_pct": 30.0, "cpu_system_pct": 10.0, "busiest_worker_pct": 12.0},
    }  # fmt: skip
    return [SliceRecord.model_validate({**plain, "cycle": cycle, **more}) for cycle in (1, 2)]


def two_cpus(_slice: SliceRecord) -> dict[str, float]:
    return {SERVER_CPU: 2.0, LOAD_CPU: 2.0}


def queues(slices: list[SliceRecord], of: Experiment | None = None) -> list[ArmQueue]:
    return analyse(of or OPEN, slices, two_cpus)


def sentence(one: ArmQueue) -> str:
    (text,) = sentences([one])
    return text


def test_arms_are_in_the_order_of_the_experiment() -> None:
    slices = [*made(arm="jemalloc"), *made(arm="glibc")]
    assert [one.arm for one in queues(slices)] == ["glibc", "jemalloc"]


def test_the_figures_are_means_of_all_slices() -> None:
    (one,) = queues(made())
    assert one.queue.throughput_per_s == 400.0
    assert (round(one.queue.in_system, 6), round(one.queue.in_service, 6), round(one.queue.waiting, 6)) == (6, 4, 2)
    assert one.utilisations["connections"] == 0.5
    assert one.utilisations["server's CPU"] == 0.25
    assert one.utilisations["CPUs of the host"] == 0.4
    assert sentence(one).endswith("no resource is saturated; the busiest is connections at 50\u202f%.")


def test_the_saturated_resource_is_named() -> None:
    (one,) = queues(made(server_cpu_s=3.8))
    assert sentence(one).endswith("saturated: server's CPU.")


HOSTS = {"hosts": {"a": {"cpus_usable": 8}, "b": {"cpus_usable": 32}}}
CLIENTS = (HostGroup(name="a", clients=("load-1",)), HostGroup(name="b", clients=("load-2",)))


@pytest.mark.parametrize(
    ("where", "cpus"),
    [
        ({"host": {"cpus_usable": 2}}, {SERVER_CPU: 2.0, LOAD_CPU: 2.0}),
        (HOSTS, {SERVER_CPU: 32.0, LOAD_CPU: 32.0}),
        (HOSTS | {"host_groups": CLIENTS}, {SERVER_CPU: 32.0}),
        ({"host": {"cpus_usable": 2}, "server_host": {"cpus_usable": 16}}, {SERVER_CPU: 16.0, LOAD_APART: 2.0}),
    ],
)
def test_cpu_time_is_of_the_cpus_of_its_own_host(where: dict[str, Any], cpus: dict[str, float]) -> None:
    study = StudyRecord(study="s", created_unix_ns=0, mydyno_version="0", experiment=OPEN, **where)
    groups = {1: "a", 2: "b"} if study.hosts else {}
    one, _ = slices = made(block=2, server_cpu_s=1.0)
    assert _cpus(SimpleNamespace(study=study, group_of=groups), one) == cpus  # type: ignore[arg-type]
    (queue,) = analyse(OPEN, slices, lambda _: cpus)
    assert queue.utilisations[SERVER_CPU] == pytest.approx(1 / 2 / cpus[SERVER_CPU])
    assert (queue.others is None) == (LOAD_CPU not in cpus)


def test_counts_that_do_not_agree_are_stated_instead_of_a_resource() -> None:
    (one,) = queues(made(transactions=1900))
    assert sentence(one).endswith(
        "do not use them: throughput × service time is 9.5 busy connections, but there are 8."
    )
    assert "saturated:" not in sentence(one)


def test_slices_without_service_times_have_no_queue() -> None:
    assert queues(made(service_us=None)) == []


USED = {"server_cpu_user_pct": 120.0, "server_cpu_system_pct": 70.0}


def of_runs(
    valid: bool = True, cpus: float | None = 2, values: dict[str, float] = USED, **changes: object
) -> list[SliceRecord]:
    """Two runs of a study of blocks, each of 10 s with 400 transactions/s."""
    driver = DriverResult(
        driver="dynoload", version="", command=(), transactions=4000, queries=4000, duration_s=10.0,
        latency_us={"mean": 15_000.0}, service_us=10_000.0,
    )  # fmt: skip
    step = StepRecord(
        id=STEPS[0].id, workload="oltp_read_only", connections=8, started_unix_ns=7, warmup_s=5, measure_s=10,
        driver=driver.model_copy(update=changes),
    )  # fmt: skip
    runs = [
        RunRecord(block=block, position=3, arm=OPEN.control, folder=f"{block}", started_unix_ns=0, ended_unix_ns=1,
                  steps=(step,), valid=valid)
        for block in (1, 2)
    ]  # fmt: skip
    summaries = [RunSummary.of(run, values={step.id: values}) for run in runs]
    slices = [one for run, of in zip(runs, summaries, strict=True) for one in slices_of_run(run, of, cpus)]
    return used_slices(slices, summaries)


def test_an_open_loop_of_a_study_of_blocks_has_a_queue() -> None:
    (one,) = queues(of_runs())
    assert one.queue.throughput_per_s == 400.0
    assert (round(one.queue.in_system, 6), round(one.queue.in_service, 6), round(one.queue.waiting, 6)) == (6, 4, 2)
    assert one.utilisations["connections"] == 0.5
    assert one.saturated == ("server's CPU",)
    assert one.queue.disagreement() == ""
    (wrong,) = queues(of_runs(transactions=9000))
    assert "SUSPECT" in sentence(wrong)


def test_runs_without_service_times_or_that_do_not_count_have_no_queue() -> None:
    assert queues(of_runs(service_us=None)) == []
    assert queues(of_runs(valid=False)) == []


def test_a_run_at_a_load_level_is_a_slice_of_its_measured_window() -> None:
    values = USED | {
        "qps": 8000.0, "cpu_user_pct": 70.0, "cpu_system_pct": 10.0, "driver_cpu_user_pct": 8.0,
        "driver_cpu_system_pct": 2.0, "disk_util_pct": 30.0,
    }  # fmt: skip
    one, _ = of_runs(cpus=4, values=values)
    assert (one.block, one.cycle, one.position, one.started_unix_ns, one.length_s) == (1, 1, 3, 5_000_000_007, 10.0)
    assert (one.transactions, one.server_cpu_s, one.driver_cpu_s) == (4000, 19.0, 1.0)
    assert one.strangers == pytest.approx(0.3), "80 % of four CPUs, of which server and load used two"
    assert rate(one, "qps") == 8000.0, "the value of which the effect is made"
    (queue,) = queues([one])
    assert (queue.utilisations[DISK], queue.utilisations["CPUs of the host"]) == (0.3, 0.8)
    for unknown in (of_runs(cpus=None, values=values), of_runs(cpus=4)):
        assert unknown[0].strangers is None


CLOSED = experiment(steps=(StepSpec(workload="oltp_read_only", connections=(4,)),))


def looped(arm: str = "glibc", **more: object) -> list[ArmQueue]:
    """400 transactions/s of 10 ms: 4 connections."""
    plain = {"step": CLOSED.resolved_steps[0].id, "latency_us": {"mean": 10_000.0, "p99": 20_000.0}, "arm": arm}
    return queues(made(**{**plain, **more}), CLOSED)  # type: ignore[arg-type]


def test_long_transactions_count_by_their_share_of_a_slice() -> None:
    """Of 0.3 s in slices of 0.5 s: each of 4 connections ends two."""
    long: dict[str, Any] = {
        "step": CLOSED.resolved_steps[0].id,
        "length_s": 0.5,
        "latency_us": {"mean": 300_000.0, "p99": 300_000.0},
    }
    cut = {"transactions": 4 * 0.5 / 0.3 - 8}
    (one,) = queues([of for block in range(100) for of in made(8, block=block, cut=cut, **long)], CLOSED)
    assert one.queue.disagreement() == ""
    assert rate(made(8, cut=cut, **long)[0], "tps") == pytest.approx(4 / 0.3)
    (by_ends,) = queues([of for block in range(100) for of in made(8, block=block, **long)], CLOSED)
    assert by_ends.queue.disagreement() == "many"


def test_a_closed_loop_has_its_connections_under_way() -> None:
    (one,) = looped()
    assert one.queue.disagreement() == ""
    cells = {row[0]: row[1].text for row in table("s", [one]).rows}  # type: ignore[union-attr]
    assert cells["transactions under way: throughput × response time"].startswith("4.00 of 4 (±")
    assert "connections" not in one.utilisations
    assert sentence(one).endswith("no resource is saturated; the busiest is CPUs of the host at 40\u202f%.")


def test_a_closed_loop_that_contradicts_the_law_is_suspect_with_its_numbers() -> None:
    (one,) = looped(transactions=200)
    assert "SUSPECT" in sentence(one)
    assert "100 transactions/s × 10 ms = 1 under way, but 4 connections always have one" in sentence(one)
    rates = {"cpu_user_pct": 30.0, "cpu_system_pct": 10.0}
    assert sentences([one, *looped("jemalloc", rates=rates)])[0] == sentence(one)


def test_the_hosts_cpus_are_named_with_who_used_them_and_without_what_the_hypervisor_took() -> None:
    rates = {"cpu_user_pct": 40.0, "cpu_system_pct": 10.0}
    arms = [*looped("glibc", rates=rates, steal=0.5), *looped("jemalloc", rates=rates, steal=0.5)]
    (text,) = sentences(arms)
    assert text.startswith("glibc, jemalloc, oltp_read_only-4: ")
    assert text.endswith("saturated: CPUs of the host (server 25\u202f%, load program 5\u202f%, others 70\u202f%).")


def test_the_disk_and_the_link_are_resources_and_the_disk_is_never_called_saturated() -> None:
    second = 1_000_000_000
    readings = {1: DiskReadings([0, second, 2 * second, 3 * second], [0.0, 0.9, 1.0, 1.0])}
    slices = made(step=CLOSED.resolved_steps[0].id, arm="glibc", latency_us={"mean": 10_000.0}, started_unix_ns=second)
    (one,) = analyse(CLOSED, slices, two_cpus, readings, {("glibc", slices[0].step): 0.95})
    assert one.utilisations[DISK] == 1.0
    assert one.saturated == (LINK,)
    (queue,) = analyse(OPEN, made(started_unix_ns=second), two_cpus, readings, {("glibc", STEPS[0].id): 0.5})
    assert (queue.utilisations[DISK], queue.utilisations[LINK]) == (1.0, 0.5), "an open loop has them too"
    assert readings[1].mean(0.5 * second, 1.5 * second) == pytest.approx(0.95)
    assert readings[1].mean(9 * second, 10 * second) is None


def test_slices_without_a_mean_response_time_are_not_judged() -> None:
    assert looped(latency_us={"p99": 20_000.0}) == []
