"""A second host for tests: two network namespaces with a wire between them, and a MariaDB that others started in one.

The wire's speed is the fake ethtool's: what it is told, it makes of both ends by tc.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pymysql

from mydyno.hosts.network.certificates import make_certificates
from mydyno.servers.build import ServerBuild
from tests.support.fake_ethtool import FakeEthtool
from tests.support.other_server import START_SERVER, open_copy
from tests.support.patience import HANG_S, first_line, wait_until
from tests.support.processes import has_ended

CARD, FAR_CARD = "near0", "far0"
NEAR, FAR = "198.51.100.1", "198.51.100.2"
PASSWORD = "not a secret"
APPLY = """#!/bin/sh
rate=$(($1 * 1514 / 1538))mbit
for end in "{near} {card}" "{far} {far_card}"; do
    set -- $end
    nsenter --net="$1" tc qdisc replace dev "$2" root tbf rate "$rate" burst 256kb latency 10ms
done
"""


@dataclass(frozen=True)
class SecondHost:
    """How to be on the first host, and how the second is reached from there."""

    entering: list[str]
    ethtool: FakeEthtool
    socket: str
    """The server's own, for who is on its host."""

    @property
    def dsn(self) -> str:
        return f"mysql://bench@{FAR}:3306/sbtest"


def make_namespace() -> subprocess.Popen[bytes]:
    """A process that keeps a namespace while its standard input is open."""
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "ip link set lo up && echo made && read _"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    first_line(holder, "the holder of a network namespace", b"made\n")
    return holder


@contextlib.contextmanager
def second_host(build: ServerBuild, folder: Path) -> Iterator[SecondHost]:
    """Both hosts, with an empty schema sbtest on the second one's server."""
    near, far = make_namespace(), make_namespace()
    near_net, far_net = (f"/proc/{holder.pid}/ns/net" for holder in (near, far))
    server = folder / "server"
    try:
        pair = ["ip", "link", "add", "name", CARD, "type", "veth", "peer", "name", FAR_CARD, "netns", str(far.pid)]
        in_namespace(near_net, *pair)
        for net, card, address in ((near_net, CARD, NEAR), (far_net, FAR_CARD, FAR)):
            in_namespace(net, "ip", "address", "add", f"{address}/30", "dev", card)
            in_namespace(net, "ip", "link", "set", "dev", card, "up")
        environment = open_copy(build, folder)
        command = [str(START_SERVER), str(server), "--port", "3306", f"--bind-address={FAR}", *_tls(folder)]
        started = in_namespace(far_net, *command, environment=environment)
        assert "ready" in started, started
        sql = f"CREATE DATABASE sbtest; CREATE USER bench IDENTIFIED BY '{PASSWORD}'; GRANT ALL ON sbtest.* TO bench"
        _as_root(server / "s.sock", sql)
        ethtool = FakeEthtool.at(folder / "ethtool")
        apply = ethtool.folder / "apply"
        apply.write_text(APPLY.format(near=near_net, card=CARD, far=far_net, far_card=FAR_CARD))
        apply.chmod(0o755)
        yield SecondHost(["nsenter", f"--net={near_net}", "--"], ethtool, str(server / "s.sock"))
    finally:
        with contextlib.suppress(OSError, ValueError):
            pid = int((server / "pid").read_text())
            os.kill(pid, 9)
            # A dead process stays where nobody waits for it, as in a container whose first process does not.
            assert wait_until(lambda: has_ended(pid)), f"the second host's server {pid} outlives SIGKILL"
        for holder in (near, far):
            holder.communicate(b"")


def _tls(folder: Path) -> list[str]:
    """Options of a server that speaks TLS 1.3 alone, with a certificate of its own."""
    certificates = folder / "certificates"
    certificates.mkdir()
    made = make_certificates(certificates, "rsa-2048", [FAR])
    made.key.chmod(0o644)  # the server runs as nobody
    files = {"ca": made.authority, "cert": made.certificate, "key": made.key}
    return [*(f"--ssl-{name}={path}" for name, path in files.items()), "--tls-version=TLSv1.3"]


def in_namespace(net: str, *command: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        ["nsenter", f"--net={net}", "--", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
        timeout=HANG_S,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def _as_root(socket: Path, sql: str) -> None:
    with pymysql.connect(user="root", unix_socket=str(socket), autocommit=True) as root, root.cursor() as cursor:
        for statement in sql.split("; "):
            cursor.execute(statement)
