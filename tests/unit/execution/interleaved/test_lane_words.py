"""How the end of a server is worded."""

from __future__ import annotations

from collections.abc import Set

import pytest

from mydyno.execution.interleaved.lane import server_end
from mydyno.hosts.quiet import killed_in

OWN = 4242
KILL = "Killed process 4242 (mariadbd) total-vm:1500000kB, anon-rss:900000kB, file-rss:0kB, shmem-rss:0kB"


@pytest.mark.parametrize(
    ("exit_code", "kills", "killed", "words"),
    [
        (-9, 1, {OWN}, "the kernel killed the server for lack of memory (exit code -9)"),
        (137, 2, {1, OWN}, "the kernel killed the server for lack of memory (exit code 137)"),
        (-9, 1, {1}, "the server ended with exit code -9"),
        (-9, 1, None, "the server was killed (exit code -9) while this host was out of memory"),
        (-9, 0, None, "the server ended with exit code -9"),
        (-11, 1, {OWN}, "the server ended with exit code -11"),
    ],
)
def test_a_kill_of_the_server_for_lack_of_memory_is_told_from_another(
    exit_code: int, kills: int, killed: Set[int] | None, words: str
) -> None:
    assert server_end(exit_code, OWN, kills, killed) == words


@pytest.mark.parametrize(
    ("record", "pids"),
    [
        (f"3,1170,98126543,-;Memory cgroup out of memory: {KILL}\n", {OWN}),
        (f"3,1170,98126543,-;Out of memory: {KILL}\n", {OWN}),
        (f"3,1169,98126542,-;Out of memory: {KILL}\n", set()),
        ("6,1171,98126590,-;oom_reaper: reaped process 4242 (mariadbd), now anon-rss:0kB\n", set()),
        ("6,12,98,-;mariadbd invoked oom-killer: gfp_mask=0xcc0, order=0\n SUBSYSTEM=x\n", set()),
    ],
)
def test_the_kernels_log_names_what_was_killed_since_a_time(record: str, pids: Set[int]) -> None:
    assert killed_in(record, 98126543) == pids
