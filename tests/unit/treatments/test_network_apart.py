"""The timed transfers between a server's host and the hosts of its load."""

from __future__ import annotations

import asyncio
import socket
import threading
from types import SimpleNamespace

import pytest

from mydyno.errors import HostError
from mydyno.hosts.network.link import Shape, Transfer
from mydyno.hosts.network.load_end import ClassState, OwnLoadEnd, ShapedPort
from mydyno.hosts.network.ports import LOOPBACK, free_port
from mydyno.treatments.network_apart import ApartLink


class Unreached:
    """A load host whose program is killed, before or after it has connected."""

    name = "far"

    def __init__(self, connects: bool) -> None:
        self._connects = connects
        self.asked = asyncio.Event()
        self.link: socket.socket | None = None

    async def transfer(self, address: str, port: int, sends: bool, window_s: float) -> Transfer:
        assert sends
        if self._connects:
            self.link = socket.create_connection((address, port))
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


def link(shape: Shape | None = None) -> ApartLink:
    made = ApartLink(shape or Shape(), False, None, SimpleNamespace(address=LOOPBACK))  # type: ignore[arg-type]
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
        async def transfer(self, address: str, port: int, sends: bool, window_s: float) -> Transfer:
            raise HostError("mydyno client-network ended")

    with pytest.raises(HostError, match=r"between 127\.0\.0\.1 and the load host far: mydyno client-network ended"):
        await link()._timed(Ended(False), True)  # type: ignore[arg-type]


async def test_a_transfer_lasts_several_round_trips_at_both_ends() -> None:
    windows = []

    class Asked(Unreached):
        async def transfer(self, address: str, port: int, sends: bool, window_s: float) -> Transfer:
            windows.append(window_s)
            raise HostError("enough")

    with pytest.raises(HostError):
        await link(Shape(None, "250ms"))._timed(Asked(False), True)  # type: ignore[arg-type]
    assert set(windows) == {2.5}


@pytest.mark.parametrize(
    ("far", "latency_s", "words"),
    [
        ("98439Kbit", 0.002, "server eth1 98439Kbit and 2 ms, far eth2 98439Kbit and 2 ms"),
        ("984395Kbit", 0.002, "far eth2 984395Kbit and 2 ms; not as requested on far eth2"),
        ("98439Kbit", 0.0, "far eth2 98439Kbit; not as requested on far eth2"),
    ],
)
async def test_what_tc_reports_of_each_end_is_compared(far: str, latency_s: float, words: str) -> None:
    counted = iter(range(9))

    class Reached:
        name = "far"

        async def reach(self, address: str, port: int) -> None:
            pass

        async def state(self, shaped: ShapedPort) -> ClassState:
            return ClassState(far, 0, next(counted), latency_s)

    made = link(Shape(1e8, "2ms"))
    shaping = SimpleNamespace(state=lambda *_: ClassState("98439Kbit", 0, next(counted), 0.002))
    made.path = SimpleNamespace(address=LOOPBACK, shaping=shaping)  # type: ignore[assignment]
    made._own, made._far = ShapedPort("eth1", 1), [(Reached(), ShapedPort("eth2", 1))]  # type: ignore[list-item]
    holds, (text,), _ = await made._read_back()
    assert holds is ("not as" not in words)
    assert text.endswith(words)
