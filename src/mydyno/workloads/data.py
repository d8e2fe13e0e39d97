"""The data that workloads need, by name: how large, how long to prepare, how to read them once, how to say it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mydyno.model.experiment import DataSpec
from mydyno.workloads import oltp, tpcc

PREPARE_ROWS_PER_S = 60_000.0
"""sysbench prepare into MariaDB on two cores (measured: 40,000 to 180,000)."""


@dataclass(frozen=True)
class DataKind:
    """One kind of data."""

    size_bytes: Callable[[DataSpec], int]
    prepare_s: Callable[[DataSpec], float]
    prewarm_sql: Callable[[DataSpec], list[str]]
    words: Callable[[DataSpec], str]
    short: Callable[[DataSpec], str]
    """For a folder's name."""
    own_keys: tuple[str, ...]
    """The keys of [data] that shape it."""


DATA: dict[str, DataKind] = {
    "oltp": DataKind(
        oltp.data_bytes,
        lambda data: data.tables * data.rows / PREPARE_ROWS_PER_S,
        lambda data: [sql for table in range(1, data.tables + 1) for sql in oltp.prewarm_sql(table)],
        oltp.data_words,
        oltp.data_short,
        ("workload", "tables", "rows", "secondary", "auto_inc"),
    ),
    "tpcc": DataKind(
        tpcc.data_bytes,
        lambda data: data.warehouses * tpcc.PREPARE_S_PER_WAREHOUSE,
        lambda _data: tpcc.prewarm_sql(),
        lambda data: f"{data.warehouses} warehouse{'' if data.warehouses == 1 else 's'}",
        lambda data: f"{data.warehouses}w",
        ("workload", "warehouses"),
    ),
}


def kind_of(data: DataSpec) -> DataKind:
    """The kind of an experiment's data. Raises KeyError for an unknown one; parsing has refused it before."""
    return DATA[data.workload]
