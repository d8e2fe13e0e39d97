"""Each server's telemetry against a second source: the engine's own text, the kernel's own files, counted statements.

The probe is given its clock by hand, so that one sample is exactly one second after another and a rate is a count.
Which servers are tested is test_catalogue_servers' choice.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mydyno.hosts.paths import HostPaths
from mydyno.servers.running.base import CONTROL_USER
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.sql import Control
from tests.server.test_catalogue_servers import instance
from tests.support.patience import HANG_S

pytestmark = pytest.mark.exhaustive

__all__ = ["instance"]
SCHEMA = "telemetry_test"
TRANSACTIONS, SELECTS = 40, 25
TRIES = 30
PROBES_OWN = 3
"""Statements of one sample: the status, and on older servers the engine's text and its metrics."""


class ManualProbe:
    """A probe that samples when it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def sample(self, second: int) -> dict[str, float]:
        """The instance's metrics at this second of the probe's clock."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"sample {second}000000000\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            record = json.loads(line)
            if record["record"] == "sample":
                found: dict[str, float] = record["metrics"]["instance:1"]
                return found
        raise AssertionError("the probe ended")


@contextmanager
def manual_probe(instance: MysqldServer, folder: Path) -> Iterator[ManualProbe]:
    password = folder / "password"
    password.touch(mode=0o600)
    password.write_text(instance.credentials.control)
    target = f"1:{instance.pid},socket={instance.socket},user={CONTROL_USER},password-file={password}"
    command = [str(HostPaths.resolve().program("dynoprobe")), "--interval-ms=0", f"--instance={target}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield ManualProbe(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(HANG_S)


async def engine_text(control: Control) -> tuple[int, int, int]:
    """(checkpoint age, modified pages, pages in use or free) of SHOW ENGINE INNODB STATUS."""
    ((*_, text),) = await control.rows("SHOW ENGINE INNODB STATUS")

    def number(words: str) -> int:
        found = re.search(rf"{words}\s+(\d+)", str(text))
        assert found, f"{words} is not in the engine's text"
        return int(found[1])

    age = number("Log sequence number") - number("Last checkpoint at")
    return age, number("Modified db pages"), number("Database pages") + number("Free buffers")


async def at_rest(control: Control, probe: ManualProbe) -> tuple[tuple[int, int, int], dict[str, float]]:
    """What the engine says and what the probe says, where nothing changed from before the sample to after it.

    MySQL 9.7 refreshes its metrics a moment after its text: a server is at rest once they stay the same, too.
    """
    rested = None
    for second in range(10, 10 + TRIES):
        before = await engine_text(control)
        sample = probe.sample(second)
        if await engine_text(control) == before:
            rested = before, sample
            if sample["innodb_checkpoint_age_bytes"] == before[0]:
                return rested
        await asyncio.sleep(0.5)
    if rested is None:
        pytest.fail("the server did not come to rest")
    return rested


async def work(control: Control) -> int:
    """Transactions and queries; gives the number of statements."""
    for number in range(TRANSACTIONS):
        await control.rows("BEGIN")
        await control.rows(f"UPDATE {SCHEMA}.t SET v = REPEAT('x', {number % 9 + 100}) WHERE id = {number % 20}")
        await control.rows("ROLLBACK" if number == 7 else "COMMIT")
    for _ in range(SELECTS):
        await control.rows(f"SELECT v FROM {SCHEMA}.t WHERE id = 5")
    return 3 * TRANSACTIONS + SELECTS


def kernel_bytes(pid: int) -> dict[str, int]:
    """VmRSS and VmSize of /proc/PID/status."""
    text = Path(f"/proc/{pid}/status").read_text()
    return {name: int(size) * 1024 for name, size in re.findall(r"(VmRSS|VmSize):\s+(\d+) kB", text)}


async def test_rates_are_counted_statements_and_levels_are_the_engines_and_the_kernels_own(
    instance: MysqldServer, tmp_path: Path
) -> None:
    async with instance.control() as control:
        await control.rows(f"CREATE DATABASE {SCHEMA}")
        await control.rows(f"CREATE TABLE {SCHEMA}.t (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=InnoDB")
        values = ", ".join(f"({number}, 'v')" for number in range(20))
        await control.rows(f"INSERT INTO {SCHEMA}.t VALUES {values}")
        with manual_probe(instance, tmp_path) as probe:
            probe.sample(0)
            statements = await work(control)
            metrics: dict[str, Any] = dict(probe.sample(1))
            assert 1 <= metrics["qps"] - statements <= PROBES_OWN
            assert metrics["tps"] == TRANSACTIONS
            assert metrics["com_commit_per_s"] == TRANSACTIONS - 1
            assert metrics["com_rollback_per_s"] == 1
            assert metrics["com_select_per_s"] == SELECTS
            assert metrics["com_update_per_s"] == TRANSACTIONS
            ((connected,),) = await control.rows("SELECT COUNT(*) FROM information_schema.processlist WHERE user = %s",
                                                 CONTROL_USER)  # fmt: skip
            assert metrics["threads_connected"] == int(connected)
            assert metrics["innodb_redo_written_bytes_per_s"] > 0
            kernel = kernel_bytes(instance.pid)
            assert metrics["server_rss_bytes"] == pytest.approx(kernel["VmRSS"], rel=0.05)
            assert metrics["server_vsize_bytes"] == pytest.approx(kernel["VmSize"], rel=0.05)
            (age, modified, pages), rest = await at_rest(control, probe)
            assert rest["innodb_checkpoint_age_bytes"] == age
            assert rest["innodb_dirty_pages_pct"] == pytest.approx(100.0 * modified / pages, abs=1e-3)
            assert rest.get("innodb_checkpoint_max_age_bytes", age) >= age
            assert all(value is not None for value in rest.values()), "absent, never null"
