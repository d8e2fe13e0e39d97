"""When the guard of a server ends a slice, and when it lets the next one begin; a server that is a list of answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pymysql
import pytest

from mydyno.errors import ServerError
from mydyno.execution.interleaved.shared_lane import Guard, replica_lag_s
from mydyno.model.definition.specs import GuardSpec


class Server:
    """Has these numbers of running threads, one after the other; then the last one for ever."""

    def __init__(self, *running: int, lags: list[dict[str, Any]] | None = None, unknown: str = "") -> None:
        self._running = running
        self._looks = iter(running)
        self._lags, self._unknown = lags or [], unknown
        self.closed = self.lost = False

    def control(self) -> Server:
        return self

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed = True

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if self.lost:
            raise ServerError("Lost connection")
        return [("Threads_running", next(self._looks, self._running[-1]))] if "Threads" in sql else [(1,)]

    async def records(self, sql: str) -> list[dict[str, Any]]:
        if sql == self._unknown:
            raise ServerError(sql) from pymysql.ProgrammingError(1064, "You have an error in your SQL syntax")
        return self._lags


def guarding(server: Server, **limits: Any) -> Guard:
    return Guard(GuardSpec(**limits), server, look_s=0.001, calm_s=0.01, longest_s=0.1)  # type: ignore[arg-type]  # a stand-in


async def test_it_names_what_is_exceeded_and_else_ends_with_the_slice() -> None:
    ended = asyncio.Event()
    server = Server(3, 8, 9)
    looking = guarding(server, threads_running=8)
    assert await looking.exceeded(ended) == "Threads_running is 9, more than 8"
    ended.set()
    assert await looking.exceeded(ended) == ""
    await looking.end()
    assert server.closed


async def test_a_server_that_does_not_answer_ends_the_slice_and_is_asked_in_another_session() -> None:
    server = Server(3)
    server.lost = True
    looking = guarding(server, threads_running=8)
    assert await looking.exceeded(asyncio.Event()) == "Lost connection"
    assert server.closed
    server.lost = False
    assert await looking.calm()


async def test_a_slow_statement_is_one_that_users_would_feel() -> None:
    words = await guarding(Server(1), p99=1e-9).look()
    assert words.startswith("p99 of the guard's statement is ")


async def test_it_waits_until_the_server_has_been_calm_for_a_while() -> None:
    assert await guarding(Server(9, 9, 1), threads_running=8).calm()
    assert not await guarding(Server(9), threads_running=8).calm()


@pytest.mark.parametrize(
    ("lags", "words"),
    [
        ([{"Seconds_Behind_Source": 3}], ""),
        ([{"Seconds_Behind_Master": 7}], "7 s behind its source"),
        ([{"Seconds_Behind_Source": None}], "not replicating"),
        ([{"Seconds_Behind_Source": 1}, {"Seconds_Behind_Source": 9}], "9 s behind"),
        ([], "not replicating"),
    ],
)
async def test_a_replica_that_lags_or_does_not_replicate_is_not_loaded(lags: list[dict[str, Any]], words: str) -> None:
    found = await guarding(Server(1, lags=lags), replica_lag=5).look()
    assert words in found and bool(words) == bool(found)


async def test_servers_that_do_not_know_the_newer_statement_are_asked_by_the_older_one() -> None:
    old = Server(1, lags=[{"Seconds_Behind_Master": 2}], unknown="SHOW REPLICA STATUS")
    assert await replica_lag_s(old) == 2.0  # type: ignore[arg-type]
