"""Ports that are given to servers."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mydyno.errors import HostError
from mydyno.hosts.network import ports
from tests.support.fake_host import FakeHost


def test_no_two_servers_get_the_same_port_though_none_listens_yet() -> None:
    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(lambda _: ports.port_between(ports.LOOPBACK, 20_000, 20_150), range(60)))
    assert len(set(given)) == 60


@pytest.mark.parametrize(("first", "below"), [("32768", 32768), ("12000", 12000), ("11999", 65536), ("", 32768)])
def test_a_port_is_one_that_no_outgoing_connection_gets(tmp_path: Path, first: str, below: int) -> None:
    """Unless that leaves too few."""
    host = FakeHost(tmp_path)
    host.write("proc/sys/net/ipv4/ip_local_port_range", f"{first}\t60999\n" if first else "")
    assert ports.first_outgoing(host) == below
    assert all(ports.LOWEST <= ports.free_port() < ports.first_outgoing() for _ in range(20))


def test_a_port_that_somebody_listens_at_is_not_given() -> None:
    with socket.socket() as taken:
        taken.bind((ports.LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(HostError, match=f"no free TCP port from {port} to {port}"):
            ports.port_between(ports.LOOPBACK, port, port + 1)
