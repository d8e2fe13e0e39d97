"""sysbench's OLTP family, and connect: what each asks, its options, and what the server must have counted afterwards.

Options carry sysbench 1.0.20's names (with underscores) and defaults, and are passed on only if they are set.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mydyno.language import agreed
from mydyno.model.definition.experiment import DataSpec, Frozen

CONNECT = "connect"
"""The workload of which a transaction is a new connection with its TLS handshake and its login, and its end.

tps are connections per second, so the cost of a handshake is a ratio of rates and a difference of CPU per transaction.
Nothing is read or written; sysbench has no such workload. The server must have counted as many connections as the
driver, dynoload, reports.
"""


class ConnectOptions(Frozen):
    """Options of the workload connect."""

    rate: int = Field(0, ge=0, description="planned connections per second; 0: as many as possible")


class OltpOptions(Frozen):
    """Options of the OLTP workloads (sysbench 1.0.20, oltp_common.lua)."""

    range_size: int = Field(100, ge=1, description="rows of one range query")
    point_selects: int = Field(10, ge=0, description="point selects in a transaction")
    range_selects: bool = Field(True, description="whether transactions contain range queries")
    simple_ranges: int = Field(1, ge=0, description="simple range queries in a transaction")
    sum_ranges: int = Field(1, ge=0, description="SUM() range queries in a transaction")
    order_ranges: int = Field(1, ge=0, description="ORDER BY range queries in a transaction")
    distinct_ranges: int = Field(1, ge=0, description="DISTINCT range queries in a transaction")
    index_updates: int = Field(1, ge=0, description="updates of the indexed column in a transaction")
    non_index_updates: int = Field(1, ge=0, description="updates of a column without index in a transaction")
    delete_inserts: int = Field(1, ge=0, description="DELETE and INSERT pairs in a transaction")
    skip_trx: bool = Field(False, description="autocommit: no BEGIN and COMMIT")
    random_points: int = Field(10, ge=1, description="points of select_random_points")
    random_ranges: int = Field(10, ge=1, description="ranges of select_random_ranges")
    delta: int = Field(5, ge=1, description="width of a range of select_random_ranges")
    rand_type: Literal["uniform", "gaussian", "special", "pareto"] = Field(
        "special", description="distribution of row numbers (sysbench 1.0.20's default is special)"
    )
    rand_spec_iter: int = Field(12, ge=1, description="numbers that one of rand_type special is the mean of")
    rand_spec_pct: int = Field(1, ge=1, le=100, description="share of the rows, in per cent, that special prefers")
    rand_spec_res: int = Field(75, ge=1, le=100, description="share of row numbers, in per cent, that are among these")
    rand_pareto_h: float = Field(0.2, gt=0, lt=1, description="parameter h of pareto")
    rand_seed: int = Field(
        0, ge=0, description="0: from design.seed, block and load level, the same in all arms of a block"
    )
    rate: int = Field(0, ge=0, description="planned transactions per second; 0: as many as possible")
    db_ps_mode: Literal["auto", "disable"] = Field("auto", description="prepared statements, or text protocol")
    mysql_ssl: bool = Field(False, description="TLS, as sysbench 1.0.20 does it (see reference: it may fall back)")
    mysql_compression: bool = Field(False, description="protocol compression (zlib)")
    mysql_ignore_errors: str = Field("1213,1020,1205", description="error codes that restart the transaction")


OLTP_WORKLOADS: dict[str, str] = {
    "oltp_point_select": "one point select by primary key",
    "oltp_read_only": "point selects and range queries in a transaction",
    "oltp_read_write": "oltp_read_only plus updates and a delete and insert",
    "oltp_write_only": "the writes of oltp_read_write",
    "oltp_update_index": "one update of the indexed column",
    "oltp_update_non_index": "one update of a column without index",
    "oltp_insert": "one insert",
    "oltp_delete": "one delete by primary key",
    "select_random_points": "one select of several keys",
    "select_random_ranges": "one count over several ranges",
}


def prewarm_sql(table: int) -> tuple[str, str]:
    """Statements that read a table's clustered and secondary index whole, into the buffer pool."""
    return (
        f"SELECT SUM(LENGTH(c) + LENGTH(pad)) FROM sbtest.sbtest{table}",
        f"SELECT COUNT(*) FROM sbtest.sbtest{table} FORCE INDEX (k_{table}) WHERE k >= 0",
    )


def data_words(data: DataSpec) -> str:
    """The tables, and the kind of their texts if that is not sysbench's digits."""
    rows = f"{data.rows:,}"
    if data.text == "digits":
        return agreed(f"{data.tables} tables of {rows} rows")
    return agreed(f"{data.tables} tables of {rows} rows of {data.text}")


def data_short(data: DataSpec) -> str:
    """For a folder's name; by it, prepared data of other texts are kept apart."""
    return f"{data.tables}x{data.rows}" + ("" if data.text == "digits" else f"-{data.text}")


SYSTEM_BYTES = 140_000_000
"""System tablespaces, redo and undo logs of a fresh data directory (measured)."""


def rows_bytes(data: DataSpec) -> int:
    """About the size of the tables and their indexes: 240 bytes a row in InnoDB (measured)."""
    return data.tables * max(data.rows * 240, 112 * 1024)


def data_bytes(data: DataSpec) -> int:
    """About the size of the whole data directory on disk."""
    return rows_bytes(data) + SYSTEM_BYTES
