# mypy: disable-error-code="arg-type"
"""Packets of real clients, captured on the loopback interface: they have the statements of the server's general log."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import socket
import struct
import subprocess
from collections import Counter
from pathlib import Path

import pymysql
import pytest

from mydyno.drivers.base import StepContext
from mydyno.execution.environments.private_environment import PrivateEnvironment
from mydyno.hosts.network.ports import free_port
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Step
from mydyno.servers.running.base import LOAD_USER
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.sql import Address, Control
from tests.support.patience import HANG_S

BOTH = "SELECT 1; SELECT 2"
STATEMENTS = ["SELECT 'it''s', \"a\\\\b\"", BOTH, "SELECT wrong", "BEGIN", "SELECT '\u00fc'", "ROLLBACK"]
LOADS = {
    "prepared": ["--db-ps-mode", "auto"],
    "text": ["--db-ps-mode", "disable"],
    "zlib": ["--db-ps-mode", "auto", "--compression", "zlib"],
}
ALL_PROTOCOLS, SO_ATTACH_FILTER, SO_TIMESTAMP, SO_RCVBUFFORCE = 3, 26, 29, 33
ROOM = 64 << 20


class Loopback:
    """The packets of one TCP port on the loopback interface, as tcpdump writes them; each twice: sent and received."""

    def __init__(self, port: int, path: Path) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        # IPv4, TCP, and the port on either side: what `tcpdump port N` makes of it (bpf(4)).
        steps = [
            (0x28, 0, 0, 12), (0x15, 0, 8, 0x0800), (0x30, 0, 0, 23), (0x15, 0, 6, 6), (0xB1, 0, 0, 14),
            (0x48, 0, 0, 14), (0x15, 2, 0, port), (0x48, 0, 0, 16), (0x15, 0, 1, port), (0x06, 0, 0, 1 << 18),
            (0x06, 0, 0, 0),
        ]  # fmt: skip
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
        program = struct.pack("HL", len(steps), ctypes.addressof(code))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMP, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, ROOM)
        self._socket.bind(("lo", ALL_PROTOCOLS))

        self._file = path.open("wb")
        self._file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1))
        asyncio.get_running_loop().add_reader(self._socket, self._take)

    def _take(self) -> None:
        while True:
            try:
                data, ancillary, _, _ = self._socket.recvmsg(1 << 18, 64, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            self._file.write(struct.pack("<4I", *struct.unpack("ll", ancillary[0][2]), len(data), len(data)) + data)

    def close(self) -> None:
        """Take what has come, and end."""
        asyncio.get_running_loop().remove_reader(self._socket)
        with self._socket, self._file:
            self._take()


def run_statements(instance: MysqldServer) -> None:
    connection = pymysql.connect(
        host="127.0.0.1", port=instance.port, user=LOAD_USER, password=instance.credentials.load, database="sbtest",
        client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS, ssl_disabled=True,
    )  # fmt: skip
    with connection, connection.cursor() as cursor:
        for statement in STATEMENTS:
            try:
                cursor.execute(statement)
            except pymysql.MySQLError:
                assert statement == "SELECT wrong"


def events(capture: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in capture.read_text().splitlines()[1:]]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root captures packets")
async def test_packets_have_the_statements_of_the_general_log(
    environment: PrivateEnvironment, instance: MysqldServer, real_paths: HostPaths, tmp_path: Path
) -> None:
    instance.port = free_port()
    await instance.start()
    program = real_paths.program("dynoload")
    variables = {**os.environ, "DYNO_PASSWORD": instance.credentials.load}

    def dynoload(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *words],
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
            cwd=tmp_path,
            env=variables,
        )

    server = ["--host", "127.0.0.1", "--port", str(instance.port), "--user", LOAD_USER, "--table-size", "2000"]
    async with Control(instance.address()) as control:
        await control.rows("SET GLOBAL log_output = 'FILE', GLOBAL general_log_file = 'general.log'")
        await control.rows("SET GLOBAL general_log = ON")
        loopback = Loopback(instance.port, tmp_path / "a.pcap")
        run_statements(instance)
        for options in LOADS.values():
            load = ["oltp", "run", "--workload", "oltp_read_write", "--connections", "2", "--rate", "20"]
            done = dynoload(*load, "--duration", "1s", "--quiet", *options, *server)
            assert done.returncode in (0, 4), done.stdout + done.stderr  # 4: rows that sysbench's tables lack
        address = Address(LOAD_USER, instance.credentials.load.encode(), host="127.0.0.1", port=instance.port)
        step = Step(id="a", workload="oltp_read_write", connections=2, warmup_s=0, measure_s=1, driver="sysbench")
        context = StepContext(
            address, environment.experiment.data, step, tmp_path, tmp_path / "log", on_progress=lambda _: None
        )
        await environment.drivers["sysbench"].run(context)
        await control.rows("SET GLOBAL general_log = OFF")
    loopback.close()
    (tmp_path / "general.log").write_bytes((instance.folder / "data" / "general.log").read_bytes())

    for file in ("general.log", "a.pcap"):
        done = dynoload("capture", file, "-o", f"{file}.capture", "--user", LOAD_USER, "--port", str(instance.port))
        assert done.returncode == 0, done.stderr
    logged, captured = events(tmp_path / "general.log.capture"), events(tmp_path / "a.pcap.capture")
    # The log has no end of connections without COM_QUIT, and no character set of a login.
    all_of = [
        [one for one in each if one["record"] != "quit" and not str(one.get("text")).startswith("SET NAMES")]
        for each in (logged, captured)
    ]
    texts, more = (Counter(one.get("text", one["record"]) for one in each) for each in all_of)
    # MariaDB logs several statements as they were sent.
    assert (texts - more, more - texts) == (Counter([BOTH]), Counter(BOTH.split("; ")))
    known = "; ".join(STATEMENTS).split("; ")
    first = [one for one in captured if one["session"] == 1]
    assert first[0]["user"] == f"{LOAD_USER}@127.0.0.1" and first[0]["schema"] == "sbtest"
    assert "; ".join(one["text"] for one in first if one.get("text") in known) == "; ".join(STATEMENTS)
    rows = [
        one["rows"] for one in captured if str(one.get("text")).startswith("SELECT c FROM sbtest1 WHERE id BETWEEN")
    ]
    assert max(rows) == 100
    assert all(one["duration_us"] > 0 for one in captured if one.get("text") == "SELECT wrong")

    done = dynoload("capture", "a.pcap", "-o", "b", "--port", "1")
    assert done.returncode == 2 and f"--port {instance.port}" in done.stderr, done.stderr
    assert not (tmp_path / "b").exists()
