"""Effects of server variables that the kernel, the file system or the tables can overrule, read where they act.

SHOW VARIABLES reports what was set, also where it is not in force: a file system that refuses O_DIRECT, a kernel
without reserved huge pages, a statement that names its own engine. Sources: the flags of the server's open files
(/proc/PID/fdinfo, proc_pid_fdinfo(5)), its mappings (maps, smaps, numa_maps), information_schema.TABLES and its
status. Read once, after the start; a file that the server has not opened yet and a table that the load makes later are
not seen. Where nothing can be read, the variable counts as set, not as proved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mydyno.errors import ServerError
from mydyno.hosts.root import HERE, HostRoot
from mydyno.model.definition.quantities import format_bytes
from mydyno.servers.sql import Control
from mydyno.treatments.allocator_memory import pool_mappings, read_mappings
from mydyno.treatments.huge_pages import unit_bytes

DATA_FILES = re.compile(r"ibdata\d+|.+\.ibd")
LOG_FILES = re.compile(r"ib_logfile\d+|#ib_redo\d+")
MOST_NAMES = 3
_SYSTEM_SCHEMAS = "'mysql', 'sys', 'information_schema', 'performance_schema', 'innodb_memcache'"


@dataclass(frozen=True, slots=True)
class Effect:
    """What was read; `holds` is None where it could not be read, and `text` then says why."""

    holds: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where effects are read: the live process, a control session, and the server's variables (lower case)."""

    pid: int
    control: Control
    variables: dict[str, str]
    root: HostRoot = HERE

    def text(self, name: str) -> str:
        """A file of the process's folder of /proc. Raises OSError."""
        return (self.root.proc / str(self.pid) / name).read_text(errors="replace")


Reader = Callable[[Source, str], Awaitable[Effect]]


async def effect_of(name: str, value: str, source: Source) -> Effect | None:
    """The effect of a variable with the value that the server reports; None for one that the server alone decides."""
    reader = READERS.get(name)
    if reader is None:
        return None
    try:
        return await reader(source, value.upper())
    except (OSError, ServerError) as error:
        return Effect(None, str(error))


def open_files(pid: int, wanted: re.Pattern[str]) -> dict[str, int]:
    """{name: flags} of the process's open files of these names; flags that all descriptors of a file have.

    Raises OSError where the kernel does not permit reading them.
    """
    found: dict[str, int] = {}
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            name = descriptor.readlink().name
            if wanted.fullmatch(name):
                info = Path(f"/proc/{pid}/fdinfo/{descriptor.name}").read_text()
                flags = int(info.partition("flags:")[2].split()[0], 8)
                found[name] = found.get(name, flags) & flags
        except FileNotFoundError:
            continue  # closed meanwhile
    return found


def flags_effect(pid: int, files: re.Pattern[str], flag: int, wanted: bool) -> Effect:
    """Whether all open files of these names have a flag of open(2), or none of them. Raises OSError as open_files()."""
    found = open_files(pid, files)
    kind = "data" if files is DATA_FILES else "redo log"
    if not found:
        return Effect(None, f"no {kind} file is open")
    having = {name for name, flags in found.items() if flags & flag}
    word = "O_DIRECT" if flag == os.O_DIRECT else "O_DSYNC"
    text = f"{len(having)} of {len(found)} open {kind} files have {word}"
    exceptions = sorted(found.keys() - having if wanted else having)
    if exceptions and len(exceptions) < len(found):
        text += f" ({'not' if wanted else 'also'} {', '.join(exceptions[:MOST_NAMES])})"
    return Effect(not exceptions, text)


def direct_io(pid: int) -> Effect:
    """Whether the server's data files bypass the page cache."""
    try:
        return flags_effect(pid, DATA_FILES, os.O_DIRECT, True)
    except OSError as error:
        return Effect(None, str(error))


async def _flush_method(source: Source, value: str) -> Effect:
    """With O_DSYNC, MariaDB opens its data files with O_DIRECT, MySQL without: the redo log shows it in both."""
    if value == "O_DSYNC":
        return flags_effect(source.pid, LOG_FILES, os.O_DSYNC, True)
    return flags_effect(source.pid, DATA_FILES, os.O_DIRECT, "O_DIRECT" in value)


async def _buffering(files: re.Pattern[str], source: Source, value: str) -> Effect:
    return flags_effect(source.pid, files, os.O_DIRECT, value == "OFF")


async def _write_through(files: re.Pattern[str], source: Source, value: str) -> Effect:
    return flags_effect(source.pid, files, os.O_DSYNC, value == "ON")


async def _native_aio(source: Source, value: str) -> Effect:
    """The rings that the kernel shares with a user of AIO: io_setup(2) maps one, io_uring_setup(2) opens one."""
    used = "/[aio]" in source.text("maps")
    used = used or bool(open_files(source.pid, re.compile(r"anon_inode:\[io_uring\]")))
    return Effect(used is (value == "ON"), f"the kernel has {'an' if used else 'no'} AIO context of the server")


async def _large_pages(source: Source, value: str) -> Effect:
    mappings = read_mappings(source.pid)
    if mappings is None:
        return Effect(None, "smaps cannot be read")
    pool, found = (
        int(source.variables["innodb_buffer_pool_size"]),
        pool_mappings(mappings, unit_bytes(source.variables)),
    )
    text = f"{format_bytes(found.hugetlb)} of the pool's {format_bytes(pool)} are on reserved huge pages"
    return Effect(found.hugetlb >= 0.98 * pool if value == "ON" else not found.hugetlb, text)


async def _numa_interleave(source: Source, value: str) -> Effect:
    """Absent where the kernel has no NUMA."""
    lines = source.text("numa_maps").splitlines()
    count = sum(line.split()[1].startswith("interleave") for line in lines if len(line.split()) > 1)
    return Effect(bool(count) is (value == "ON"), f"{count} mappings are interleaved over NUMA nodes")


async def _thread_pool(source: Source, value: str) -> Effect:
    """The threads of MariaDB's and Percona Server's pool: the control session alone keeps one of them."""
    rows = await source.control.rows("SHOW GLOBAL STATUS LIKE 'Threadpool_threads'")
    if not rows:
        return Effect(None, "the server does not count the threads of a pool")
    count = int(rows[0][1])
    return Effect(bool(count) is (value == "POOL-OF-THREADS"), f"its pool has {count or 'no'} threads")


async def _tables(column: str, source: Source, value: str) -> Effect:
    """The load's tables; of several, some may name what others leave to the variable."""
    if not value:
        return Effect(True, "it is not set")
    rows = await source.control.rows(
        f"SELECT {column}, COUNT(*) FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' "
        f"AND TABLE_SCHEMA NOT IN ({_SYSTEM_SCHEMAS}) GROUP BY 1 ORDER BY 1"
    )
    if not rows:
        return Effect(None, "there is no table of the load")
    found = {str(one).upper().replace("UTF8MB3", "UTF8") for one, _ in rows}
    text = "the load's tables: " + ", ".join(f"{count} {one}" for one, count in rows)
    return Effect(value.replace("UTF8MB3", "UTF8") in found, text)


async def _compressed(source: Source, value: str) -> Effect:
    """Page compression of MariaDB's tables, which innodb_compression_default gives those that say nothing of it."""
    rows = await source.control.rows(
        "SELECT COUNT(*), SUM(CREATE_OPTIONS LIKE '%page_compressed%' OR ROW_FORMAT = 'Compressed') "
        "FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND ENGINE = 'InnoDB' "
        f"AND TABLE_SCHEMA NOT IN ({_SYSTEM_SCHEMAS})"
    )
    count, compressed = (int(one or 0) for one in rows[0])
    if not count:
        return Effect(None, "there is no table of the load")
    return Effect(
        value in ("OFF", "NONE", "0") or compressed > 0, f"{compressed} of the load's {count} tables are compressed"
    )


async def _sysdate(source: Source, value: str) -> Effect:
    """SYSDATE() in a session whose clock is set back: it is the session's time only as another name of NOW()."""
    await source.control.rows("SET timestamp = 1")
    try:
        same = bool(int((await source.control.rows("SELECT SYSDATE() = NOW()"))[0][0]))
    finally:
        await source.control.rows("SET timestamp = DEFAULT")
    return Effect(same is (value in ("ON", "1", "TRUE")), f"SYSDATE() is {'' if same else 'not '}the statement's time")


async def _plugins(source: Source, value: str) -> Effect:
    """The libraries of [NAME=]LIBRARY[;…] among those of active plugins."""
    wanted = {part.rpartition("=")[2].strip().removesuffix(".SO") for part in value.split(";") if part.strip()}
    rows = await source.control.rows(
        "SELECT DISTINCT PLUGIN_LIBRARY FROM information_schema.PLUGINS "
        "WHERE PLUGIN_STATUS = 'ACTIVE' AND PLUGIN_LIBRARY IS NOT NULL"
    )
    missing = sorted(wanted - {str(library).upper().removesuffix(".SO") for (library,) in rows})
    lacking = ", ".join(missing).lower()
    return Effect(not missing, f"no plugin of {lacking} is active" if missing else "its plugins are active")


_CHARACTER_SET = "SUBSTRING_INDEX(TABLE_COLLATION, '_', 1)"
READERS: dict[str, Reader] = {
    "innodb_flush_method": _flush_method,
    "innodb_data_file_buffering": partial(_buffering, DATA_FILES),
    "innodb_data_file_write_through": partial(_write_through, DATA_FILES),
    "innodb_log_file_buffering": partial(_buffering, LOG_FILES),
    "innodb_log_file_write_through": partial(_write_through, LOG_FILES),
    "innodb_use_native_aio": _native_aio,
    "large_pages": _large_pages,
    "innodb_numa_interleave": _numa_interleave,
    "thread_handling": _thread_pool,
    "default_storage_engine": partial(_tables, "ENGINE"),
    "enforce_storage_engine": partial(_tables, "ENGINE"),
    "innodb_compression_default": _compressed,
    "innodb_compression_algorithm": _compressed,
    "innodb_compression_level": _compressed,
    "sysdate_is_now": _sysdate,
    "plugin_load": _plugins,
    "plugin_load_add": _plugins,
    "early_plugin_load": _plugins,
    "innodb_default_row_format": partial(_tables, "ROW_FORMAT"),
    "character_set_server": partial(_tables, _CHARACTER_SET),
    "collation_server": partial(_tables, "TABLE_COLLATION"),
}
"""Variable → what reads its effect."""
