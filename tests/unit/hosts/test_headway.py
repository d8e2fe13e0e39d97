"""A wait of unknown length lasts as long as the process makes headway, and no longer than a while without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mydyno.hosts import quiet
from mydyno.hosts.local import LocalHost
from mydyno.hosts.quiet import Headway, Work

MIB = 1 << 20
STILL_S = 120.0
DISK: Callable[[float], Work] = lambda s: Work(0.001 * s, int(s * MIB))  # noqa: E731
CPU: Callable[[float], Work] = lambda s: Work(0.9 * s)  # noqa: E731
IDLE: Callable[[float], Work] = lambda s: Work(0.004 * s, int(100 * s))  # noqa: E731
SYNC: Callable[[float], Work] = lambda _: Work(in_kernel=True)  # noqa: E731


class Simulated:
    """A process that works as `work` says at a time, and time that passes when it is looked at."""

    def __init__(self, work: Callable[[float], Work]) -> None:
        self.at_s = 0.0
        self.said: list[str] = []
        self.headway = Headway(
            1, STILL_S, self.said.append, "waiting until mysql-8.4 has stopped",
            read=lambda _: work(self.at_s), now=lambda: self.at_s,
        )  # fmt: skip

    def ended_s(self, most_s: float, counts: Callable[[float], bool] = lambda _: True) -> float | None:
        """When it was given up; None: not within this time."""
        while self.at_s < most_s:
            if self.headway.ended(counts(self.at_s)):
                return self.at_s
            self.at_s += 0.5
        return None


@pytest.mark.parametrize("work", [DISK, CPU, SYNC])
def test_an_hour_of_work_is_waited_for(work: Callable[[float], Work]) -> None:
    assert Simulated(work).ended_s(3600) is None


def test_a_server_that_idles_is_given_up() -> None:
    assert Simulated(IDLE).ended_s(3600) == STILL_S


def test_the_time_begins_anew_with_each_headway() -> None:
    """Dirty pages are written for ten minutes, then it hangs."""
    assert Simulated(lambda s: DISK(min(s, 600.0))).ended_s(3600) == pytest.approx(600 + STILL_S, abs=quiet.LOOK_S)


def test_headway_counts_only_until_the_server_listens() -> None:
    """Recovery for ten minutes; then our own attempts to log in keep it busy, and that is no recovery."""
    ended_s = Simulated(CPU).ended_s(3600, counts=lambda s: s < 600)
    assert ended_s == pytest.approx(600 + STILL_S, abs=quiet.LOOK_S)


def test_a_long_wait_is_reported_with_what_was_done() -> None:
    simulated = Simulated(DISK)
    simulated.ended_s(61)
    assert simulated.said == [
        "waiting until mysql-8.4 has stopped: 20 s, 0 s of CPU time, 20.0 MiB read and written",
        "waiting until mysql-8.4 has stopped: 40 s, 0 s of CPU time, 40.0 MiB read and written",
        "waiting until mysql-8.4 has stopped: 1 min, 0 s of CPU time, 60.0 MiB read and written",
    ]


async def test_a_process_that_ignores_its_end_and_does_nothing_is_killed() -> None:
    host = LocalHost("headway", None)
    process = await host.start(["sh", "-c", "trap '' TERM; echo; exec sleep 1000"], stdout=asyncio.subprocess.PIPE)
    assert process.streams.stdout is not None
    await process.streams.stdout.readline()
    await process.end(1000.0, Headway(process.pid, 0.2))
    assert process.exit_code == -9


async def test_a_process_that_works_past_its_time_ends_by_itself() -> None:
    looks = iter(range(1_000_000))
    host = LocalHost("headway", None)
    process = await host.start(["sh", "-c", "trap 'exit 7' TERM; echo; while :; do sleep 0.3; done"],
                               stdout=asyncio.subprocess.PIPE)  # fmt: skip
    assert process.streams.stdout is not None
    await process.streams.stdout.readline()
    await process.end(0.0, Headway(process.pid, 0.1, read=lambda _: Work(float(next(looks))), look_s=0.01))
    assert process.exit_code == 7


async def test_a_command_without_a_limit_ends_where_it_does_nothing() -> None:
    done = await LocalHost("headway", None).run(["sleep", "1000"], timeout_s=0.2, unbounded=True)
    assert done.exit_code == 124
