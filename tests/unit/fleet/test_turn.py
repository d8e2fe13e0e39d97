"""When a block begins on a host where an earlier process may still hold the lock."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from mydyno.errors import HostError, StudyError
from mydyno.fleet.block import own_turn
from mydyno.hosts.lock import CLEANING, study_lock
from tests.support.patience import HANG_S

WAITS = "waiting for an earlier block of this study to end"


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"\0mydyno-test-{tmp_path}"


@pytest.mark.parametrize("holder", ["fake-1", CLEANING])
async def test_an_earlier_block_of_the_study_is_waited_for(address: str, holder: str) -> None:
    said: list[str] = []
    waits = asyncio.Event()

    def say(text: str) -> None:
        said.append(text)
        waits.set()

    async def begin() -> None:
        async with own_turn("fake-1", address, say):
            with pytest.raises(HostError), study_lock("other", address):
                raise AssertionError

    with study_lock(holder, address):
        beginning = asyncio.create_task(begin())
        await asyncio.wait_for(waits.wait(), HANG_S)
        assert not beginning.done()
    await asyncio.wait_for(beginning, 30)
    assert said == [WAITS]


async def test_an_earlier_block_that_does_not_end_is_no_lasting_fault_of_the_host(address: str) -> None:
    with study_lock("fake-1", address), pytest.raises(StudyError, match=r"still holds this host.*fake-1 \(pid"):
        async with own_turn("fake-1", address, lambda _: None, most_waiting_s=0.05):
            raise AssertionError


async def test_another_study_is_not_waited_for(address: str) -> None:
    said: list[str] = []
    with study_lock("fake-2", address), pytest.raises(HostError, match=r"another study is running.*fake-2"):
        async with own_turn("fake-1", address, said.append):
            raise AssertionError
    assert said == []


async def test_a_holder_that_does_not_answer_is_another_study_after_a_moment(address: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as mute:
        mute.bind(address)
        with pytest.raises(HostError, match="unknown"):
            async with own_turn("fake-1", address, lambda _: None, most_unknown_s=0.03):
                raise AssertionError
