"""All workloads by name: options, and which drivers can run them; and the data that they need: size, time to prepare,
statements that read them once, description.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mydyno.model.definition.experiment import EXISTING, DataSpec, Frozen
from mydyno.workloads import files, kv, oltp, tpcc
from mydyno.workloads.files import REPLAY, SCRIPT, SQL, FileOptions, ReplayOptions, ScriptOptions
from mydyno.workloads.kv import KV_SECOND_OPINIONS, KV_WORKLOADS, KvOptions
from mydyno.workloads.oltp import CONNECT, OLTP_WORKLOADS, ConnectOptions, OltpOptions
from mydyno.workloads.tpcc import TpccOptions

PREPARE_ROWS_PER_S = 60_000.0
"""sysbench prepare into MariaDB on two cores (measured: 40,000 to 180,000)."""


@dataclass(frozen=True)
class DataKind:
    """One kind of data."""

    size_bytes: Callable[[DataSpec], int]
    """The whole data directory on disk."""
    rows_bytes: Callable[[DataSpec], int | None]
    """The tables and their indexes, compared with the buffer pool; None where only the user's file knows."""
    prepare_s: Callable[[DataSpec], float]
    prewarm_sql: Callable[[DataSpec], list[str]]
    words: Callable[[DataSpec], str]
    short: Callable[[DataSpec], str]
    """For a folder's name."""
    own_keys: tuple[str, ...]
    """The keys of [data] that shape it."""
    schema_sql: Callable[[DataSpec], list[str]] | None = None
    """What makes the template's empty tables; None: the driver prepares tables and rows."""
    store_s: Callable[[DataSpec], float] | None = None
    """About how long each run takes to store its data over the load's own protocol; None: the template holds them."""


DATA: dict[str, DataKind] = {
    "oltp": DataKind(
        oltp.data_bytes,
        oltp.rows_bytes,
        lambda data: data.tables * data.rows / PREPARE_ROWS_PER_S,
        lambda data: [sql for table in range(1, data.tables + 1) for sql in oltp.prewarm_sql(table)],
        oltp.data_words,
        oltp.data_short,
        ("workload", "tables", "rows", "secondary", "auto_inc"),
    ),
    "tpcc": DataKind(
        tpcc.data_bytes,
        tpcc.rows_bytes,
        lambda data: data.warehouses * tpcc.PREPARE_S_PER_WAREHOUSE,
        lambda _data: tpcc.prewarm_sql(),
        lambda data: f"{data.warehouses} {'warehouse' if data.warehouses == 1 else 'warehouses'}",
        lambda data: f"{data.warehouses}w",
        ("workload", "warehouses"),
    ),
    "kv": DataKind(
        kv.data_bytes,
        kv.rows_bytes,
        lambda _data: 5.0,
        lambda _data: kv.prewarm_sql(),
        kv.data_words,
        lambda data: f"{data.value_bytes}b",
        ("workload", "value_bytes"),
        kv.schema_sql,
        lambda data: 1.0 + data.keys / kv.STORED_PER_S,
    ),
    EXISTING: DataKind(
        lambda _data: 0,
        lambda _data: None,
        lambda _data: 0.0,
        lambda _data: [],
        lambda _data: "the tables of the schema as they are",
        lambda _data: EXISTING,
        ("workload",),
    ),
    **{
        kind: DataKind(
            files.reserved_bytes,
            lambda _data: None,
            files.prepare_s,
            files.prewarm_sql,
            files.words,
            files.short,
            ("workload", "options"),
        )
        for kind in (files.SCRIPT, files.SQL)
    },
}


def kind_of(data: DataSpec) -> DataKind:
    """The kind of an experiment's data. Raises KeyError for an unknown one; parsing has already rejected it."""
    return DATA[data.workload]


@dataclass(frozen=True)
class Workload:
    """The operations, in one line."""

    name: str
    description: str
    data: str
    """The data it needs (data.workload)."""
    options: type[Frozen]
    drivers: tuple[str, ...]


ANY_SQL = "any SQL"
"""The data of a workload that runs on whatever tables its file is for."""

WORKLOADS: dict[str, Workload] = {
    **{
        name: Workload(name, description, "oltp", OltpOptions, ("dynoload", "sysbench"))
        for name, description in OLTP_WORKLOADS.items()
    },
    CONNECT: Workload(
        CONNECT,
        "connect, TLS handshake, log in, disconnect: connections per second",
        "oltp",
        ConnectOptions,
        ("dynoload",),
    ),
    "tpcc": Workload("tpcc", "the five transactions of TPC-C", "tpcc", TpccOptions, ("dynoload",)),
    **{
        name: Workload(name, description, "kv", KvOptions, ("dynoload", *KV_SECOND_OPINIONS.get(name, ())))
        for name, description in KV_WORKLOADS.items()
    },
    SCRIPT: Workload(SCRIPT, "a Lua script of sysbench", ANY_SQL, ScriptOptions, ("dynoload",)),
    SQL: Workload(SQL, "a file of SQL transactions", ANY_SQL, FileOptions, ("dynoload",)),
    REPLAY: Workload(REPLAY, "the transactions of a capture", ANY_SQL, ReplayOptions, ("dynoload",)),
}
DATA_WORKLOADS = tuple(DATA)
