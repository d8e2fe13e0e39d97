# mypy: disable-error-code="arg-type"
"""The host: who may enter which folder, one study at a time, processes that end, counters, what a study needs."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from mydyno.errors import HostError
from mydyno.execution.planning.forecast import forecast
from mydyno.hosts.capabilities import Capability, capabilities
from mydyno.hosts.facts import host_facts
from mydyno.hosts.local import LocalHost, closed_ancestors, entering_command, exit_with_parent
from mydyno.hosts.lock import study_lock, turn_of
from mydyno.hosts.paths import ENGINE_PROGRAMS, HostPaths
from mydyno.hosts.quiet import MemoryCounters
from mydyno.hosts.root import HERE
from mydyno.model.definition.experiment import ServerSpec
from mydyno.model.definition.plan import make_plan
from mydyno.workloads.reconcile import disagreements, growth
from tests.support.fake_cgroups import version_2
from tests.support.fake_host import FakeHost
from tests.support.fake_script import experiment

NOBODY = (65534, 65534)


@pytest.fixture
def closed(short_folder: Path) -> Path:
    """A folder that only its owner may enter, with open ones below it."""
    folder = short_folder / "closed"
    (folder / "open" / "deep").mkdir(parents=True)
    folder.chmod(0o700)
    return folder


def test_the_topmost_closed_ancestor_is_found(closed: Path) -> None:
    if os.geteuid() == NOBODY[0]:
        pytest.skip("run by nobody itself: to whom its own folder is open")
    assert closed_ancestors([closed / "open" / "deep", closed / "open"], NOBODY) == [closed]
    assert closed_ancestors([closed], NOBODY) == [closed]
    assert closed_ancestors([closed.parent], NOBODY) == []


def test_the_owner_and_the_group_may_enter_by_their_own_bits(closed: Path) -> None:
    owner = (closed.stat().st_uid, closed.stat().st_gid)
    assert closed_ancestors([closed / "open"], owner) == []
    closed.chmod(0o010)
    assert closed_ancestors([closed / "open"], owner) == [closed], (
        "an owner without the bit is shut out, whatever follows"
    )


def test_a_command_is_only_wrapped_where_it_must_be(closed: Path) -> None:
    assert entering_command(["prog"], [closed.parent], NOBODY) == ["prog"]
    wrapped = entering_command(["prog", "a b"], [closed / "open"], NOBODY)
    assert wrapped[0] == "unshare"
    assert wrapped[-2:] == ["prog", "a b"]
    repeated = entering_command(["prog"], [closed / "open"] * 5, NOBODY)
    assert repeated[:-1] == wrapped[:-2], "a descriptor for each folder, of which dash has seven"


def test_a_folder_that_is_closed_itself_is_refused(closed: Path) -> None:
    """A library in root's home, where the server's data is too: the home would not be covered."""
    if os.geteuid() == NOBODY[0]:
        pytest.skip("run by nobody itself: to whom its own folder is open")
    inner = closed / "open" / "closed"
    inner.mkdir(0o700)
    for folder in (closed, inner):
        with pytest.raises(HostError, match=f"the server's user may not enter {folder}\n"):
            entering_command(["prog"], [folder, closed / "open" / "deep"], NOBODY)


def test_a_wrapped_command_enters_and_the_host_does_not_see_the_change(closed: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("not root: mount namespaces cannot be made here; servers then run as this user")
    (closed / "secret").write_text("not bound")
    needed = closed / "open with 'quote' and space"
    needed.mkdir()
    (needed / "file").write_text("seen")
    user = ["setpriv", f"--reuid={NOBODY[0]}", f"--regid={NOBODY[1]}", "--clear-groups", "--"]
    script = f'cat "{needed}/file"; ls "{closed}"'
    command = entering_command([*user, "sh", "-c", script], [needed], NOBODY)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"seen{needed.name}\n"
    assert str(closed) not in Path("/proc/self/mounts").read_text()
    assert (closed / "secret").exists()


def test_the_second_lock_is_refused_and_names_the_first_holder() -> None:
    address = f"\0mydyno-test-{os.getpid()}"
    with study_lock("first", address):
        for _ in range(3):
            with pytest.raises(HostError, match=rf"another study is running.*first \(pid {os.getpid()}\)"):
                study_lock("second", address).__enter__()
    with study_lock("third", address):
        pass


def test_a_lock_let_go_is_free_at_once_every_time() -> None:
    address = f"\0mydyno-test-again-{os.getpid()}"
    for number in range(200):
        with study_lock(f"study-{number}", address):
            pass


async def test_a_study_that_waits_begins_when_the_others_have_ended() -> None:
    address, said = f"\0mydyno-test-turn-{os.getpid()}", list[str]()
    begun: list[str] = []

    async def study(name: str) -> None:
        with ExitStack() as stack:
            await turn_of(stack, name, address, said.append, step_s=0.001)
            begun.append(name)
            await asyncio.sleep(0.005)

    with study_lock("first", address):
        waiting = [asyncio.ensure_future(study(name)) for name in ("second", "third")]
        await asyncio.sleep(0.02)
        assert begun == []
    await asyncio.gather(*waiting)
    assert sorted(begun) == ["second", "third"]
    assert f"waiting for another study on this host: first (pid {os.getpid()})" in said
    with study_lock("fourth", address), ExitStack() as stack, pytest.raises(HostError, match="with --wait"):
        await turn_of(stack, "fifth", address, None)


def test_a_lock_let_go_by_an_error_is_free() -> None:
    address = f"\0mydyno-test-error-{os.getpid()}"
    with pytest.raises(ZeroDivisionError), study_lock("first", address):
        raise ZeroDivisionError
    with study_lock("second", address):
        pass


def test_a_holder_that_says_nothing_is_told_so() -> None:
    address = f"\0mydyno-test-mute-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(address)
        with pytest.raises(HostError, match="unknown"), study_lock("second", address):
            pass


async def test_a_command_has_only_the_environment_that_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD_SECRET", "leaks")
    done = await LocalHost("cookie-x", None).run(["env"], environment={"SAID": "1"})
    lines = done.output.splitlines()
    assert {"SAID=1", "MYDYNO_STUDY=cookie-x", "LC_ALL=C.UTF-8"} <= set(lines)
    assert not any("SECRET" in line for line in lines)


async def test_a_command_that_takes_too_long_is_killed() -> None:
    done = await LocalHost("x", None).run(["sleep", "60"], timeout_s=0.2)
    assert (done.exit_code, "timed out" in done.output) == (124, True)


async def test_the_end_of_a_process_does_not_wait_for_others_that_hold_its_output() -> None:
    before = open_files()
    process = await LocalHost("x", None).start(
        ["sh", "-c", "sleep 300 & echo $!; exec sleep 300"], stdout=subprocess.PIPE
    )
    assert process.streams.stdout is not None
    other = int(await process.streams.stdout.readline())
    try:
        await asyncio.wait_for(process.end(0.0), 60)
        await asyncio.sleep(0)  # the loop closes pipes in its next round
        assert open_files() == before
    finally:
        os.kill(other, signal.SIGKILL)


def open_files() -> int:
    """How many file descriptors this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_process_that_ignores_the_request_is_killed() -> None:
    process = await LocalHost("x", None).start(
        ["sh", "-c", "trap '' TERM; echo up; read _; exec sleep 60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.streams.stdout is not None
    await process.streams.stdout.readline()
    assert await process.end(0.1) >= 0.1
    assert process.exit_code == -9
    assert await process.end(60) < 30, "safe to call again: there is nothing to wait for"


async def test_a_program_that_is_not_there_ends_with_its_words() -> None:
    done = await LocalHost("x", None).run(["/nowhere/mysqld"])
    assert done.exit_code == 127
    assert "/nowhere/mysqld" in done.output


def test_memory_counters_that_the_kernel_lacks_are_none(tmp_path: Path) -> None:
    path = tmp_path / "vmstat"
    path.write_text("pswpin 3\npswpout 2\noom_kill 1\nnr_free 7\n")
    now = MemoryCounters.read(path)
    assert (now.swapped_bytes, now.out_of_memory_kills) == (5 * os.sysconf("SC_PAGE_SIZE"), 1)
    path.write_text("nr_free 7\n")
    without = MemoryCounters.read(path)
    assert (without.swapped_bytes, without.out_of_memory_kills) == (None, None)
    assert now.since(without) == without
    assert MemoryCounters.read(tmp_path / "none") == without


def test_facts_of_this_host_are_never_empty(tmp_path: Path) -> None:
    facts = host_facts(tmp_path / "not" / "yet")
    assert facts["cpus"] >= facts["cpus_usable"] >= 1
    assert facts["filesystem"]["free_bytes"] > 0
    assert all(value not in (None, "") for value in facts.values())


@pytest.mark.parametrize("is_fake", [True, False])
def test_every_ability_says_what_is_there_or_missing(paths: HostPaths, is_fake: bool) -> None:
    paths = paths if is_fake else replace(paths, root=HERE)
    found = {ability.name: ability for ability in capabilities(paths)}
    assert found["load and telemetry"].possible
    assert all(ability.text for ability in found.values())
    missing = {ability.name: ability for ability in capabilities(replace(paths, engine=paths.engine / "none"))}
    assert not missing["load and telemetry"].possible
    assert "is missing" in missing["load and telemetry"].text


def test_abilities_are_those_of_the_host_that_is_asked(paths: HostPaths, host: FakeHost) -> None:
    able = {ability.name for ability in capabilities(paths) if ability.possible}
    host.is_root, host.absent = False, ["perf", "bpftrace", "ldd"]
    version_2(host.folder).joinpath("memory.max").write_text("1000000")
    less = {ability.name for ability in capabilities(paths) if ability.possible}
    assert able - less == {
        "proof of allocators", "all CPUs and memory of the host", "CPU profiles of servers", "kernel view of servers",
        "changing the host",
    }  # fmt: skip


def test_whether_the_processor_counts_instructions_is_told(paths: HostPaths, host: FakeHost) -> None:
    def told() -> Capability:
        return next(one for one in capabilities(paths) if one.name == "instructions per query")

    assert not told().possible and "not visible here" in told().text
    (host.folder / "sys/bus/event_source/devices/cpu").mkdir(parents=True)
    assert told().possible
    host.is_root = False
    assert not told().possible and "needs root" in told().text


@pytest.mark.parametrize(
    ("script", "words"), [("echo dynoload 0.0.1", "is 0.0.1, not"), ("exit 3", "not report its version")]
)
def test_an_engine_of_another_version_is_named(paths: HostPaths, tmp_path: Path, script: str, words: str) -> None:
    for name in ENGINE_PROGRAMS:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    found = {ability.name: ability for ability in capabilities(replace(paths, engine=tmp_path))}
    assert not found["load and telemetry"].possible
    assert words in found["load and telemetry"].text
    assert "install mydyno-engine" in found["load and telemetry"].text


def test_a_server_user_must_exist_and_not_be_root(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        assert HostPaths.resolve().server_user is None
        return
    for name, words in (("root", "is root; servers never run as root"), ("no-such-user-x", "no such user")):
        monkeypatch.setenv("MYDYNO_SERVER_USER", name)
        with pytest.raises(HostError, match=words):
            HostPaths.resolve()


def obstacles(paths: HostPaths, **changes: object) -> str:
    asked = experiment(**changes)
    return "\n".join(forecast(asked, make_plan(asked), paths).obstacles)


def test_what_cannot_be_done_here_is_known_before_the_start(paths: HostPaths) -> None:
    assert obstacles(paths) == ""
    assert "disk: the data need about" in obstacles(paths, data={"tables": 10_000, "rows": 10_000_000_000})
    pool = {"name": "mariadb-10.11", "variables": {"innodb_buffer_pool_size": "900T"}}
    assert "memory: arm glibc: its server needs about 900.0 TiB (buffer pool" in obstacles(paths, server=pool)
    external = ServerSpec(dsn="mysql://user@host/sbtest")
    for treatment in ({"allocator": "jemalloc"}, {"environment": {"X": "1"}}):
        assert "arm jemalloc:" in obstacles(paths, server=external, treatments={"jemalloc": treatment})
    gone = {"jemalloc": {"allocator": {"name": "jemalloc", "library": "/nowhere/lib.so"}}}
    assert "allocator library /nowhere/lib.so: no such file" in obstacles(paths, treatments=gone)


def test_counters_that_went_backwards_or_are_unknown_are_absent() -> None:
    assert growth({"Questions": 5, "Com_select": 9, "Uptime": 1}, {"Questions": 7, "Com_select": 3, "Uptime": 2}) == {
        "Questions": 2
    }


def test_a_driver_and_a_server_that_count_differently_disagree() -> None:
    counted = {"Com_select": 100_000.0, "Com_insert": 10.0, "Com_update": 0.0, "Com_delete": 0.0, "Com_replace": 0.0}
    assert disagreements("oltp_read_write", {"read": 100_000, "write": 10}, counted) == []
    assert disagreements("oltp_read_write", {"read": 50_000, "write": 10}, counted) == [
        "the driver counted 50000 reads, the server 100000 (Com_select)"
    ]
    assert "writes" in disagreements("oltp_read_write", {"read": 100_000, "write": 9_000}, counted)[0]
    assert disagreements("oltp_read_write", {"read": 1}, {}) == [], "what was not counted cannot disagree"


def test_what_the_query_cache_answers_is_a_read_that_com_select_may_lack() -> None:
    def of(selects: float, hits: float) -> list[str]:
        return disagreements("oltp_read_only", {"read": 1_000_000}, {"Com_select": selects, "Qcache_hits": hits})

    assert of(1_000, 999_000) == of(1_000_000, 999_000) == []
    assert len(of(1_000, 500_000)) == len(of(1_500_000, 0)) == 1
    both = {"Com_select": 1.0, "Qcache_hits": 2.0}
    assert growth({"Com_select": 0.0, "Qcache_hits": 0.0}, both) == both


def test_what_triggers_and_routines_do_is_no_disagreement() -> None:
    counted = {"Com_select": 9_000.0, "Com_insert": 8_000.0, "Com_update": 0.0, "Com_delete": 0.0, "Com_replace": 0.0}
    whole = {"read": 5_000, "write": 4_000, "other": 2_000, "unchanged": 0}
    assert disagreements("sql", whole, {**counted, "Questions": 11_020.0}) == []
    assert len(disagreements("sql", whole, {**counted, "Questions": 19_000.0})) == 2, "another client's"
    assert disagreements("sql", whole, {**counted, "Questions": 19_000.0}, shared=True) == []
    lost = {**counted, "Questions": 11_000.0, "Com_select": 100.0}
    assert len(disagreements("sql", whole, lost, shared=True)) == len(disagreements("sql", whole, lost)) == 1


def test_deletes_that_meet_no_row_agree_with_the_server() -> None:
    whole = {"transactions": 50_000, "read": 0, "write": 2_000, "other": 48_000, "unchanged": 48_000}
    counted = {"Com_insert": 0.0, "Com_update": 0.0, "Com_delete": 50_000.0, "Com_replace": 0.0}
    counted["Innodb_rows_deleted"] = 2_000.0
    assert disagreements("oltp_delete", whole, counted) == []
    assert disagreements("oltp_update_index", whole, {**counted, "Com_delete": 0.0, "Com_update": 50_000.0}) == []
    several = {**counted, "Com_delete": 0.0, "Com_update_multi": 30_000.0, "Com_insert_select": 20_000.0}
    assert disagreements("own", whole, several) == []
    assert disagreements("oltp_delete", whole, {**counted, "Innodb_rows_deleted": 50_000.0}) == [
        "the driver counted 2000 deleted rows, the server 50000 (Innodb_rows_deleted)"
    ]


def test_every_transaction_of_connect_is_a_connection_that_the_server_counted() -> None:
    counted = {"Connections": 40_010.0, "Com_select": 3.0}
    whole = {"transactions": 40_000, "read": 0, "write": 0}
    assert disagreements("connect", whole, counted) == []
    assert disagreements("connect", {**whole, "transactions": 80_000}, counted) == [
        "the driver counted 80000 connections, the server 40010 (Connections)"
    ]
    assert disagreements("oltp_read_only", {**whole, "transactions": 80_000}, counted) == []


def test_a_command_whose_parent_is_gone_before_it_begins_does_not_begin() -> None:
    def told(parent: int) -> tuple[int, str]:
        done = subprocess.run([*exit_with_parent(parent), "echo", "a b"], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    assert told(os.getpid()) == (0, "a b\n")
    assert told(os.getpid() + 1) == (1, "")
    assert told(1) == (1, "")
