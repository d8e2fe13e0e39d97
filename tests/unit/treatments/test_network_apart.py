"""The timed transfers between a server's host and the hosts of its load."""

from __future__ import annotations

import asyncio
import socket
import threading
from types import SimpleNamespace

import pytest

from mydyno.errors import HostError
from mydyno.hosts.network.link import Transfer
from mydyno.hosts.network.load_end import OwnLoadEnd
from mydyno.hosts.network.ports import LOOPBACK, free_port
from mydyno.treatments.network_apart import ApartLink


class Unreached:
    """A load host whose program is killed, before or after it has connected."""

    name = "far"

    def __init__(self, connects: bool) -> None:
        self._connects = connects
        self.asked = asyncio.Event()
        self.link: socket.socket | None = None

    async def transfer(self, address: str, port: int, sends: bool) -> Transfer:
        assert sends
        if self._connects:
            self.link = socket.create_connection((address, port))
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


def link() -> ApartLink:
    made = ApartLink(None, False, None, SimpleNamespace(address=LOOPBACK))  # type: ignore[arg-type]
    made._proof_port = free_port(LOOPBACK)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("sends", [True, False])
async def test_a_transfer_with_a_load_host_is_timed(sends: bool) -> None:
    found = await link()._timed(OwnLoadEnd(None), sends)  # type: ignore[arg-type]
    assert found.bits_per_s > 1e6


@pytest.mark.parametrize("connects", [False, True])
async def test_no_thread_waits_for_a_host_that_is_lost(connects: bool) -> None:
    """asyncio.run() waits for every thread: a block whose load host was killed did not end for ten seconds."""
    before = set(threading.enumerate())
    end = Unreached(connects)
    timing = asyncio.ensure_future(link()._timed(end, True))  # type: ignore[arg-type]
    await end.asked.wait()
    while connects and set(threading.enumerate()) == before:
        await asyncio.sleep(0)  # until the thread receives
    timing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await timing
    async with asyncio.timeout(5):  # half of the time that a socket waits
        await asyncio.get_running_loop().shutdown_default_executor()
    if end.link is not None:
        end.link.close()


async def test_a_transfer_that_fails_is_named_with_both_hosts() -> None:
    class Ended(Unreached):
        async def transfer(self, address: str, port: int, sends: bool) -> Transfer:
            raise HostError("mydyno client-network ended")

    with pytest.raises(HostError, match=r"between 127\.0\.0\.1 and the load host far: mydyno client-network ended"):
        await link()._timed(Ended(False), True)  # type: ignore[arg-type]
