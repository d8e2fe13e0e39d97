"""What is named with an effect: made-up studies with a known cause."""

from __future__ import annotations

import pytest

from mydyno.analysis.candidates import ENOUGH, candidates_of
from mydyno.model.stored.analyses import CandidateRecord
from mydyno.model.stored.costs import COSTS
from mydyno.model.stored.counted import (
    FrameRecord,
    KernelContrast,
    KernelRecord,
    KernelRow,
    ProfileContrast,
    ProfilesRecord,
    WaitRecord,
    WaitsContrast,
    WaitsRecord,
)
from mydyno.model.stored.summary import CostsRecord
from mydyno.results.why import explained
from tests.support.fake_causes import STEP, Cause, effect_of, named, shown_effect, study

CAUSES = {
    "fsyncs": Cause(2500.0, server={"Innodb_data_fsyncs": 0.9, "Innodb_data_writes": 1.6}, cpu={"system": 330.0}),
    "server_cpu_user_us": Cause(3200.0, cpu={"user": 1100.0}, kernel={"voluntary_context_switches": 27.0}),
    "buffer_pool_reads": Cause(6000.0, server={"Innodb_buffer_pool_reads": 4.0}, cpu={"system": 380.0}),
    "row_lock_time_us": Cause(
        5000.0, server={"Innodb_row_lock_time": 5.1, "Innodb_row_lock_waits": 0.06},
        kernel={"voluntary_context_switches": 26.0},
    ),
    "driver_cpu_us": Cause(2000.0, cpu={"driver": 420.0}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("cause", CAUSES)
def test_the_planted_cause_comes_first_in_nine_of_ten_studies(cause: str) -> None:
    firsts = []
    for seed in range(10):
        found = named(CAUSES[cause], study(CAUSES[cause], seed))
        firsts.append(found[0].name if found else "none")
    assert firsts.count(cause) >= 9, firsts


FALSE_ALARM = Cause(longer_us=150.0)
"""Costs alike, and transactions that take a little longer, as on a host that was slower in some blocks."""


@pytest.mark.slow
def test_a_study_of_equal_arms_names_a_cause_in_at_most_one_of_twenty() -> None:
    """The effect itself is a false alarm here, so that something is looked for."""
    found = [study(FALSE_ALARM, seed) for seed in range(40)]
    assert sum(bool(named(FALSE_ALARM, one)) for one in found) <= 2
    assert sum(any(cost.beyond_noise for cost in one.costs) for one in found) <= 5, "3 % of studies are expected"


def test_a_change_that_is_far_too_small_or_goes_the_other_way_is_no_explanation() -> None:
    # A switch takes 10 µs at most: 3 more do not explain 4 ms. Fewer reads do not explain a slower arm.
    cause = Cause(
        4000.0, kernel={"voluntary_context_switches": 27.0}, server={"Innodb_buffer_pool_read_requests": 40.0}
    )
    found = study(cause, 3, noise=0.002)
    beyond = {one.cost for one in found.costs if one.beyond_noise}
    assert {"voluntary_context_switches", "buffer_pool_read_requests"} <= beyond
    assert named(cause, found) == ()
    assert 0 < ENOUGH < 1


SLOWER = Cause(longer_us=1000.0)
"""8,000 µs become 9,000."""
SIDES = {"step": STEP, "arm": "changed", "control": "base", "blocks": 6, "control_us": 8000.0, "arm_us": 9000.0}


def wait(name: str, control_us: float, arm_us: float, kind: str = "wait") -> WaitRecord:
    change_us = arm_us - control_us
    return WaitRecord.model_validate(
        {"kind": kind, "name": name, "control_us": control_us, "arm_us": arm_us, "control_count": 1.0,
         "arm_count": 1.0, "low_us": change_us - 50, "high_us": change_us + 50, "beyond_noise": True}
    )  # fmt: skip


def waits(*events: WaitRecord) -> WaitsRecord:
    return WaitsRecord(contrasts=(WaitsContrast.model_validate({**SIDES, "events": events}),))


def kernel(*times: tuple[str, float, float]) -> KernelRecord:
    """A record of kernel measures: for each its name, and its time in the control and in the arm."""
    rows = [
        KernelRow(
            measure=measure, control_count=1.0, arm_count=1.0, control_us=control_us, arm_us=arm_us,
            low_us=arm_us - control_us - 50, high_us=arm_us - control_us + 50, beyond_noise=True,
        )
        for measure, control_us, arm_us in times
    ]  # fmt: skip
    return KernelRecord(contrasts=(KernelContrast.model_validate({**SIDES, "rows": rows}),))


def found(of_waits: WaitsRecord | None, of_kernel: KernelRecord | None = None) -> list[tuple[str, str, float]]:
    candidates = candidates_of([effect_of(SLOWER)], None, None, of_waits, of_kernel)
    return [(one.kind, one.name, one.explains) for one in candidates]


def test_a_larger_wait_that_moved_the_other_way_does_not_hide_the_one_that_moved_with_the_effect() -> None:
    events = (wait("client and network", 3000.0, 1500.0), wait("row locks", 100.0, 800.0))
    assert found(waits(*events)) == [("wait", "row locks", pytest.approx(0.7, abs=0.001))]


def test_stages_are_named_only_where_no_class_of_waits_is() -> None:
    commit = wait("stage/sql/Commit", 100.0, 1000.0, kind="stage")
    assert [name for _, name, _ in found(waits(commit))] == ["stage/sql/Commit"]
    assert [name for _, name, _ in found(waits(commit, wait("file I/O", 100.0, 700.0)))] == ["file I/O"]


def test_what_accounts_for_more_comes_first_whatever_its_kind() -> None:
    names = [name for _, name, _ in found(waits(wait("mutexes", 100.0, 500.0)), kernel(("run_queue", 100.0, 1000.0)))]
    assert names == ["run_queue", "mutexes"]
    names = [name for _, name, _ in found(waits(wait("mutexes", 100.0, 1000.0)), kernel(("run_queue", 100.0, 500.0)))]
    assert names == ["mutexes", "run_queue"]
    assert found(None, kernel(("run_queue_background", 100.0, 1000.0))) == [], "no transaction waits for it"


def test_a_flush_that_others_wait_for_has_their_time_too() -> None:
    """As of a group commit: one thread flushes, and takes less of the time than those that wait for it."""
    shares = found(None, kernel(("futex", 50.0, 700.0), ("file_sync", 5.0, 205.0)))
    assert shares == [("kernel", "file_sync", pytest.approx(0.85)), ("kernel", "futex", pytest.approx(0.65))]
    classes = found(waits(wait("condition variables", 50.0, 700.0), wait("file I/O", 5.0, 205.0)))
    assert [name for _, name, _ in classes] == ["file I/O", "condition variables"]
    alone = found(None, kernel(("file_sync", 5.0, 205.0)))
    assert alone == [], "nobody waits for it"
    little = found(None, kernel(("futex", 50.0, 700.0), ("file_sync", 5.0, 60.0)))
    assert [name for _, name, _ in little] == ["futex"], "too little to be what is waited for"


def test_among_equals_the_one_that_is_farther_from_no_change_comes_first() -> None:
    events = (wait("mutexes", 3000.0, 4500.0), wait("row locks", 5.0, 1100.0))
    assert [name for _, name, _ in found(waits(*events))] == ["row locks", "mutexes"]


def test_what_a_cost_counts_again_is_a_cost_and_does_not_count_it_in_turn() -> None:
    for name, cost in COSTS.items():
        for other, by in cost.counts_again.items():
            assert other in COSTS, name
            assert by > 0
            assert not COSTS[other].counts_again.get(name), f"{name} and {other} count each other again"


PER_QUERY = "server_cpu_us_per_query"


def of_cpu(costs: CostsRecord, ratio: float, profiles: ProfilesRecord | None = None) -> tuple[CandidateRecord, ...]:
    """The candidates for an effect on the server's CPU time per query."""
    return candidates_of([shown_effect(PER_QUERY, ratio)], costs, profiles, None, None)


@pytest.mark.parametrize(("part", "cpu"), [("user", {"user": 735.0}), ("system", {"system": 336.0})])
def test_an_effect_on_the_servers_cpu_time_is_accompanied_by_the_part_that_changed(
    part: str, cpu: dict[str, float]
) -> None:
    """3.5 % of 1,000 µs in nine of ten studies whose throughput shows nothing."""
    firsts = []
    for seed in range(10):
        found = of_cpu(study(Cause(cpu=cpu), seed, noise=0.004), 1.036)
        firsts.append([one.name for one in found])
        assert all(one.metric == PER_QUERY for one in found)
    assert firsts.count([f"server_cpu_{part}_us"]) >= 9, firsts


def test_a_part_of_the_cpu_time_that_moved_the_other_way_or_too_little_is_not_named() -> None:
    costs = study(Cause(cpu={"user": 790.0, "system": 285.0}), 1, noise=0.002)
    assert {one.cost for one in costs.costs if one.beyond_noise} >= {"server_cpu_user_us", "server_cpu_system_us"}
    assert [one.name for one in of_cpu(costs, 1.075)] == ["server_cpu_user_us"]
    small = study(Cause(cpu={"user": 790.0, "system": 303.0}), 1, noise=0.0005)
    assert [one.name for one in of_cpu(small, 1.093)] == ["server_cpu_user_us"]


@pytest.mark.slow
def test_equal_arms_name_no_cause_of_a_false_alarm_of_cpu_time() -> None:
    found = [study(Cause(), seed) for seed in range(40)]
    assert sum(bool(of_cpu(one, 1.02)) for one in found) <= 2


def frame(function: str, control_us: float, arm_us: float) -> FrameRecord:
    change_us = arm_us - control_us
    return FrameRecord(
        module="libspin.so", function=function, control_us=control_us, arm_us=arm_us, control_self_us=0, arm_self_us=0,
        low_us=change_us - 5, high_us=change_us + 5, beyond_noise=True,
    )  # fmt: skip


def test_the_function_that_spends_cpu_time_comes_before_the_mode_that_it_is_spent_in() -> None:
    costs = study(Cause(cpu={"user": 735.0}), 1, noise=0.002)
    frames = (frame("less", 80.0, 40.0), frame("send", 0.0, 33.0))
    contrast = ProfileContrast(
        step=STEP, arm="changed", control="base", blocks=6, control_us=1000.0, arm_us=1035.0, frames=frames
    )
    found = of_cpu(costs, 1.035, ProfilesRecord(contrasts=(contrast,)))
    assert [(one.kind, one.name) for one in found] == [("function", "send"), ("cost", "server_cpu_user_us")]
    assert found[0].module == "libspin.so"


def test_cpu_time_and_latency_are_looked_at_where_no_throughput_effect_is_shown() -> None:
    cpu, latency = shown_effect(PER_QUERY, 1.03), shown_effect("latency_p99_us", 1.4)
    again = shown_effect("server_cpu_us_per_transaction", 1.03)
    assert explained([cpu, again, latency]) == [cpu, latency]
    assert explained([cpu, effect_of(SLOWER), latency]) == [effect_of(SLOWER)]
    equivalent = shown_effect("tps", 0.999, "equivalent")
    assert explained([equivalent, cpu]) == [cpu]
    elsewhere = effect_of(SLOWER).model_copy(update={"step": "another"})
    assert explained([elsewhere, cpu]) == [elsewhere, cpu]
    assert explained([shown_effect(PER_QUERY, 1.01, "inconclusive")]) == []


OPEN = Cause(response_us=1500.0)
"""An open loop whose connections are idle most of the time: 8,000 µs between transactions."""


def test_an_effect_on_the_latency_of_an_open_loop_has_candidates_for_the_change_in_response_time() -> None:
    slow = Cause(response_us=4000.0, server={"Innodb_data_fsyncs": 0.9}, kernel={"voluntary_context_switches": 27.0})
    costs = study(slow, 2, noise=0.01, base=OPEN)
    found = candidates_of([shown_effect("latency_p99_us", 2.4)], costs, None, None, None)
    assert [one.name for one in found] == ["fsyncs"]
    higher = candidates_of([shown_effect("latency_p99_us", 0.5)], costs, None, None, None)
    assert higher == (), "the mean response time moved the other way"
    waited = waits(wait("file I/O", 100.0, 2400.0))
    (one,) = candidates_of([shown_effect("latency_p99_us", 2.4)], costs, None, waited, None)[1:]
    assert (one.kind, one.name, one.explains) == ("wait", "file I/O", pytest.approx(0.92, abs=0.03))
    assert candidates_of([shown_effect("latency_p99_us", 2.4)], None, None, waited, None) == ()


def test_cpu_time_delays_only_the_transactions_that_are_under_way() -> None:
    """16 connections on 2 CPUs, of which an open loop uses a fifth: no 8 are delayed."""
    slow = Cause(response_us=2300.0, cpu={"user": 750.0})
    costs = study(slow, 2, noise=0.001, base=OPEN)
    assert {one.cost for one in costs.costs if one.beyond_noise} >= {"server_cpu_user_us"}
    assert candidates_of([shown_effect("latency_mean_us", 1.5)], costs, None, None, None) == ()
