"""What an operation can cost: the counters of server and kernel that are divided by the operations of a step.

An operation is a transaction as the driver counts it; of a key-value load, a get or set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Cost:
    """One cost of an operation."""

    label: str
    unit: str
    source: Literal["server", "kernel", "cpu", "connections"]
    """server: SHOW GLOBAL STATUS over the whole step. kernel: KERNEL_COUNTERS of records.py, around each slice.
    cpu: µs of CPU time in the measured parts. connections: StepRecord.connection_memory_bytes, of one connection."""
    counters: tuple[str, ...] = ()
    """Added up. One that a server does not have is left out; a cost without any of them is absent."""
    least: float = 0.001
    """The smallest value that counts, in the cost's unit: less is treated like nothing."""
    event_us: float = 0.0
    """The longest time that one event usually takes, in µs; 0: it takes no time of its own worth naming. For CPU time
    and lock waits, which are times themselves, see `is_time`."""
    is_time: bool = False
    """Whether the value is a time in µs."""
    factor: float = 1.0
    counts_again: Mapping[str, float] = field(default_factory=dict)
    """{another cost: by how much each of it adds to this one}: a page that is flushed is a write call, too."""
    test: str = ""
    """What changes this cost on purpose: a server variable, or another setting of analysis/costs/suggested.py."""


def _server(label: str, unit: str, *counters: str, **more: float | str | bool | Mapping[str, float]) -> Cost:
    return Cost(label, unit, "server", counters, **more)  # type: ignore[arg-type]


def _kernel(label: str, unit: str, counter: str, **more: float | str | bool | Mapping[str, float]) -> Cost:
    return Cost(label, unit, "kernel", (counter,), **more)  # type: ignore[arg-type]


THROUGHPUT = ("tps", "qps", "tpmc", "ops")
"""The metrics of which an effect is explained by costs."""
_PAGE = 16384
"""Bytes of a page of InnoDB, unless innodb_page_size is set."""
_FLUSH_LOG = "innodb_flush_log_at_trx_commit"
_POOL = "innodb_buffer_pool_size"
_REDO = "innodb_log_file_size"

COSTS: dict[str, Cost] = {
    "server_cpu_user_us": Cost("server CPU, user", "µs", "cpu", least=0.5, is_time=True, test="server.build"),
    "server_cpu_system_us": Cost("server CPU, system", "µs", "cpu", least=0.5, is_time=True, test="server.build"),
    "driver_cpu_us": Cost("load program CPU", "µs", "cpu", least=0.5, is_time=True),
    "driver_cpu_user_us": Cost("load program CPU, user", "µs", "cpu", least=0.5, is_time=True),
    "driver_cpu_system_us": Cost("load program CPU, system", "µs", "cpu", least=0.5, is_time=True),
    "row_lock_time_us": _server(
        "row lock wait", "µs", "Innodb_row_lock_time", factor=1000.0, least=5.0, is_time=True,
        test="transaction_isolation",
    ),
    "row_lock_waits": _server("row lock waits", "", "Innodb_row_lock_waits", event_us=50_000.0),
    "table_lock_waits": _server("table lock waits", "", "Table_locks_waited", event_us=50_000.0),
    "fsyncs": _server("fsync calls of InnoDB", "", "Innodb_data_fsyncs", event_us=20_000.0, test=_FLUSH_LOG),
    "data_writes": _server(
        "write calls of InnoDB", "", "Innodb_data_writes", event_us=5_000.0, counts_again={"pages_flushed": 1},
        test=_FLUSH_LOG,
    ),
    "data_written_bytes": _server("bytes written by InnoDB", "bytes", "Innodb_data_written", least=64.0, event_us=0.02),
    "buffer_pool_reads": _server(
        "pages read into the buffer pool", "", "Innodb_buffer_pool_reads", event_us=10_000.0, test=_POOL
    ),
    "buffer_pool_read_requests": _server(
        "page requests", "", "Innodb_buffer_pool_read_requests", least=0.1, event_us=1.0
    ),
    "buffer_pool_wait_free": _server(
        "waits for a free page", "", "Innodb_buffer_pool_wait_free", event_us=10_000.0, test=_POOL
    ),
    "pages_flushed": _server(
        "pages flushed", "", "Innodb_buffer_pool_pages_flushed", event_us=5_000.0, test=_REDO
    ),
    "redo_bytes": _server("redo log bytes", "bytes", "Innodb_os_log_written", least=16.0, event_us=0.02),
    "redo_waits": _server(
        "waits for redo log space", "", "Innodb_log_waits", event_us=10_000.0,
        test="innodb_log_buffer_size",
    ),
    "rows_read": _server("rows read", "", "Innodb_rows_read", least=0.1, event_us=1.0),
    "rows_written": _server(
        "rows written", "", "Innodb_rows_inserted", "Innodb_rows_updated", "Innodb_rows_deleted",
        least=0.01, event_us=20.0,
    ),
    "handler_reads": _server(
        "handler read calls", "", "Handler_read_first", "Handler_read_key", "Handler_read_last", "Handler_read_next",
        "Handler_read_prev", "Handler_read_rnd", "Handler_read_rnd_next", least=0.1, event_us=1.0,
    ),
    "handler_writes": _server(
        "handler write calls", "", "Handler_write", "Handler_update", "Handler_delete", least=0.01, event_us=20.0
    ),
    "temporary_tables": _server(
        "temporary tables in memory", "", "Created_tmp_tables", least=0.01, event_us=100.0,
    ),
    "temporary_disk_tables": _server(
        "temporary tables on disk", "", "Created_tmp_disk_tables", event_us=2_000.0,
        test="tmp_table_size",
    ),
    "sorted_rows": _server("rows sorted", "", "Sort_rows", least=0.1, event_us=1.0),
    "table_cache_misses": _server(
        "table cache misses", "", "Table_open_cache_misses", event_us=500.0,
        test="table_open_cache",
    ),
    "bytes_received": _server("bytes received by the server", "bytes", "Bytes_received", least=8.0, event_us=0.01),
    "bytes_sent": _server("bytes sent by the server", "bytes", "Bytes_sent", least=8.0, event_us=0.01),
    "voluntary_context_switches": _kernel(
        "context switches, voluntary", "", "voluntary_context_switches", least=0.05, event_us=10.0
    ),
    "involuntary_context_switches": _kernel(
        "context switches, involuntary", "", "involuntary_context_switches", least=0.05, event_us=10.0
    ),
    "inter_processor_interrupts": _kernel(
        "interrupts between CPUs", "", "inter_processor_interrupts", least=0.05, event_us=25.0
    ),
    "minor_page_faults": _kernel("page faults, minor", "", "minor_page_faults", least=0.05, event_us=2.0),
    "major_page_faults": _kernel("page faults, major", "", "major_page_faults", event_us=10_000.0),
    "read_calls": _kernel(
        "read system calls", "", "read_calls", least=0.05, event_us=5.0, counts_again={"buffer_pool_reads": 1}
    ),
    "write_calls": _kernel("write system calls", "", "write_calls", least=0.05, event_us=5.0),
    "disk_read_bytes": _kernel(
        "bytes read from disk", "bytes", "disk_read_bytes", least=64.0, event_us=0.02,
        counts_again={"buffer_pool_reads": _PAGE},
    ),
    "disk_written_bytes": _kernel(
        "bytes written to disk", "bytes", "disk_written_bytes", least=64.0, event_us=0.02,
        counts_again={"data_written_bytes": 1, "redo_bytes": 1},
    ),
    "connection_memory_bytes": Cost("memory per connection", "bytes", "connections", least=4096.0),
}  # fmt: skip
"""In the order of tables: times first, then waits and I/O, then work, then the kernel's counts. event_us are upper
ends of what is usual (an fsync of a slow disk, a page read from a disk with seeks): they rule out what is too rare to
account for an effect, and rank nothing as proved."""

SERVER_COUNTERS = tuple(
    dict.fromkeys(name for cost in COSTS.values() if cost.source == "server" for name in cost.counters)
)
"""The counters of SHOW GLOBAL STATUS that costs are made from."""
