"""Ports that are given to servers."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mydyno.errors import HostError
from mydyno.hosts.network import ports


def test_no_two_servers_get_the_same_port_though_none_listens_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "LOWEST", 20_000)
    monkeypatch.setattr(ports, "_first_outgoing", lambda: 20_150)
    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(lambda _: ports.free_port(), range(60)))
    assert len(set(given)) == 60


def test_a_port_is_one_that_no_outgoing_connection_gets() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    if first < ports.LOWEST + 2 * ports.REMEMBERED:
        assert ports._first_outgoing() == 65536
        return
    assert all(ports.LOWEST <= ports.free_port() < first for _ in range(20))


def test_a_port_that_somebody_listens_at_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind((ports.LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(ports, "LOWEST", port)
        monkeypatch.setattr(ports, "_first_outgoing", lambda: port + 1)
        with pytest.raises(HostError, match=f"no free TCP port from {port} to {port}"):
            ports.free_port()
