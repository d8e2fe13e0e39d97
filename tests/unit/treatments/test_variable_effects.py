"""Effects of server variables that others than the server decide: read from this process as if it were a server."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from mydyno.errors import ServerError
from mydyno.servers.sql import Control
from mydyno.treatments.variable_effects import DATA_FILES, LOG_FILES, READERS, Effect, Source, effect_of, flags_effect
from tests.support.fake_host import FakeHost

Rows = list[tuple[str, int]] | list[tuple[int, int]]


class Tables:
    """A control session whose server has these tables."""

    def __init__(self, rows: Rows | None) -> None:
        self._rows = rows

    async def rows(self, _sql: str) -> Rows:
        if self._rows is None:
            raise ServerError("control connection: lost")
        return self._rows


def source(rows: Rows | None = None, pid: int = 0) -> Source:
    return Source(pid or os.getpid(), cast(Control, Tables(rows)), {})


def test_one_file_without_the_flag_is_named(tmp_path: Path) -> None:
    names = {"ibdata1": os.O_DSYNC, "t1.ibd": os.O_DSYNC, "t2.ibd": 0, "ibtmp1": 0, "ib_logfile0": 0}
    opened = [os.open(tmp_path / name, os.O_CREAT | os.O_RDWR | flag) for name, flag in names.items()]
    opened.append(os.open(tmp_path / "t1.ibd", os.O_RDWR | os.O_DSYNC))
    pid = os.getpid()
    try:
        words = "2 of 3 open data files have O_DSYNC"
        assert flags_effect(pid, DATA_FILES, os.O_DSYNC, True) == Effect(False, f"{words} (not t2.ibd)")
        assert flags_effect(pid, DATA_FILES, os.O_DSYNC, False) == Effect(False, f"{words} (also ibdata1, t1.ibd)")
        assert flags_effect(pid, LOG_FILES, os.O_DSYNC, False).holds
        assert flags_effect(pid, LOG_FILES, os.O_DSYNC, True) == Effect(
            False, "0 of 1 open redo log files have O_DSYNC"
        )
    finally:
        for descriptor in opened:
            os.close(descriptor)
    assert flags_effect(pid, DATA_FILES, os.O_DSYNC, True) == Effect(None, "no data file is open")


@pytest.mark.parametrize(
    ("name", "value", "rows", "holds"),
    [
        ("default_storage_engine", "MyISAM", [("InnoDB", 4)], False),
        ("default_storage_engine", "InnoDB", [("InnoDB", 4), ("MyISAM", 1)], True),
        ("character_set_server", "utf8", [("utf8mb3", 4)], True),
        ("collation_server", "utf8mb3_bin", [("utf8_bin", 4)], True),
        ("collation_server", "utf8mb4_bin", [("utf8mb4_general_ci", 4)], False),
        ("innodb_default_row_format", "compact", [("Dynamic", 4)], False),
        ("default_storage_engine", "InnoDB", [], None),
        ("default_storage_engine", "InnoDB", None, None),
        ("thread_handling", "pool-of-threads", [("Threadpool_threads", 3)], True),
        ("thread_handling", "pool-of-threads", [("Threadpool_threads", 0)], False),
        ("thread_handling", "one-thread-per-connection", [("Threadpool_threads", 0)], True),
        ("thread_handling", "loaded-dynamically", [], None),
        ("innodb_compression_algorithm", "none", [(4, 0)], True),
        ("innodb_compression_algorithm", "zlib", [(4, 0)], False),
        ("innodb_compression_default", "OFF", [(4, 0)], True),
    ],
)
async def test_the_servers_tables_and_status_show_what_is_in_force(
    name: str, value: str, rows: Rows | None, holds: bool | None
) -> None:
    found = await effect_of(name, value, source(rows))
    assert found is not None
    assert found.holds is holds, found.text


async def test_what_cannot_be_read_is_not_proved_and_no_failure() -> None:
    gone = source(None, pid=2**22 + 1)
    for name in READERS:
        found = await effect_of(name, "ON", gone)
        assert found is not None
        assert (found.holds, bool(found.text)) == (None, True), name
    assert await effect_of("sort_buffer_size", "1", gone) is None


async def test_mappings_that_are_interleaved_are_counted(tmp_path: Path) -> None:
    numa = replace(source(), root=FakeHost(tmp_path))
    for text, on in (("7f00 interleave:0-1 anon=9\n7f01 default\n", True), ("7f00 default anon=9\n\n", False)):
        FakeHost(tmp_path).write(f"proc/{numa.pid}/numa_maps", text)
        found: Any = [await effect_of("innodb_numa_interleave", value, numa) for value in ("ON", "OFF")]
        assert [one.holds for one in found] == [on, not on]
