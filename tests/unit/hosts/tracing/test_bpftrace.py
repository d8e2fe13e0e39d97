"""Whether bpftrace works on a host, which programs it gets, and what is read from its output (of bpftrace 0.17)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.hosts.tracing import bpftrace
from mydyno.hosts.tracing.bpftrace import added, kernel_events, system_call_name
from mydyno.model.stored.counted import MEASURES, KernelEvent
from tests.support.fake_host import FakeHost, tracing_host

RECORDED = (Path(__file__).with_name("bpftrace-0.17.jsonl")).read_text().splitlines()
"""Three threads that write and call fdatasync, on a host without TCP load."""


def test_obstacles_are_named_with_what_helps(tmp_path: Path) -> None:
    working = tracing_host(tmp_path)
    assert bpftrace.kernel_obstacle(working) is None
    assert "no tracefs" in (bpftrace.kernel_obstacle(FakeHost(tmp_path / "nowhere")) or "")
    working.is_root = False
    assert "only root" in (bpftrace.kernel_obstacle(working) or "")
    working.absent = ["bpftrace"]
    assert "apt-get install bpftrace" in (bpftrace.kernel_obstacle(working) or "")


def test_a_container_in_which_bpftrace_sees_nothing_is_named(tmp_path: Path) -> None:
    blind = tracing_host(tmp_path)
    blind.answer = lambda _: '"@seen": 0'
    assert "in a container" in (bpftrace.kernel_obstacle(blind) or "")


def test_a_kernel_without_a_tracepoint_has_the_other_measures(tmp_path: Path) -> None:
    without_block = tracing_host(tmp_path, "block:block_rq_issue")
    assert bpftrace.kernel_obstacle(without_block) is None
    assert bpftrace.absent(without_block) == {"block_io": "the kernel has no tracepoint block:block_rq_issue"}
    assert "block" not in bpftrace.source([7], [], without_block)
    obstacle = bpftrace.kernel_obstacle(tracing_host(tmp_path, "block:block_rq_issue", "syscalls:sys_enter_sendto"))
    assert "no tracepoint syscalls:sys_enter_sendto" in (obstacle or "")


def test_programs_are_of_these_processes_and_ports_alone(tmp_path: Path) -> None:
    text = bpftrace.source([7, 8], [3306], tracing_host(tmp_path))
    assert "if (pid == 7 || pid == 8)" in text
    assert "/args->sport == 3306/" in text
    assert "SERVERS" not in text
    assert "PORTS" not in text
    assert "/args->dport == 0/" in bpftrace.source([7], [], tracing_host(tmp_path))
    assert bpftrace.trace_environment(5000)["BPFTRACE_MAX_MAP_KEYS"] == "20000"


def test_without_tracefs_the_command_gets_a_mount_namespace_of_its_own(tmp_path: Path) -> None:
    bare = FakeHost(tmp_path / "bare", answer=lambda _: "sched:sched_switch sched:sched_wakeup")
    command = bpftrace.trace_command(tmp_path / "x.bt", bare)
    assert command[:2] == ["unshare", "--mount"]
    assert "--make-rprivate" in " ".join(command)
    assert bpftrace.tracepoints(bare) == {"sched:sched_switch", "sched:sched_wakeup"}
    assert bpftrace.trace_command(tmp_path / "x.bt", tracing_host(tmp_path))[0] == "bpftrace"


def test_the_recorded_output_is_read() -> None:
    events = {one.measure: one for one in kernel_events(RECORDED)}
    sync = events["file_sync"]
    assert sync.count == events["system_call/fdatasync"].count
    assert sync.time_us is not None
    assert sum(one.count for one in sync.histogram) == sync.count
    low = sum(one.low_us * one.count for one in sync.histogram)
    assert low <= sync.time_us <= sum(one.high_us * one.count for one in sync.histogram)
    assert events["run_queue"].count > 0
    assert (events["retransmits_to_server"].count, events["retransmits_to_server"].time_us) == (0, None)
    assert (events["block_read"].count, events["block_read"].time_us) == (0, 0.0)
    calls = [one.count for name, one in events.items() if name.startswith("system_call/")]
    assert events["system_calls"].count == sum(calls)
    assert {name for name in events if name in MEASURES} == set(MEASURES)


def test_a_program_that_did_not_run_has_no_events_and_not_zero() -> None:
    names = {one.measure for one in kernel_events(RECORDED, absent=["block_io"])}
    assert not any(name.startswith("block_") for name in names)
    assert "run_queue" in names


def test_two_slices_add_up() -> None:
    once = kernel_events(RECORDED)
    twice = {one.measure: one for one in added(added((), once), once)}
    for one in once:
        both = twice[one.measure]
        assert both.count == 2 * one.count
        assert both.time_us == pytest.approx(None if one.time_us is None else 2 * one.time_us)
        assert [(b.low_us, b.count) for b in both.histogram] == [(b.low_us, 2 * b.count) for b in one.histogram]
    more = KernelEvent(measure="system_call/new", count=3)
    assert more in added(once, (more,))


def test_output_of_another_form_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"Expecting"):
        kernel_events(['{"type": "map", '])


def test_a_system_call_without_a_name_keeps_its_number() -> None:
    assert [system_call_name(number, "x86_64") for number in (202, 9999)] == ["futex", "number 9999"]
    assert system_call_name(202, "aarch64") == "number 202", "it is another call there"
