"""The optimizer's statistics of a schema: renewed, read from one server and set on a copy of its tables; its size."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pymysql.constants import ER

from mydyno.errors import ServerError, UserError
from mydyno.model.stored.records import TablesRecord
from mydyno.servers.sql import Control, server_code

_TABLES = "FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_TYPE = 'BASE TABLE'"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TableStatistics(_Model):
    """Of one table of InnoDB."""

    rows: int = Field(ge=0)
    clustered_index_pages: int = Field(ge=0)
    other_index_pages: int = Field(ge=0)
    indexes: dict[str, dict[str, int]] = Field(default_factory=dict)
    """{index: {statistic (n_diff_pfx01, …, n_leaf_pages, size): value}}."""
    histograms: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """{column: MySQL's histogram}."""


class OptimizerStatistics(_Model):
    """Of a schema."""

    format: Literal["mydyno-optimizer-statistics"] = "mydyno-optimizer-statistics"
    format_version: Literal[1] = 1
    server: str
    tables: dict[str, TableStatistics]


def read_file(path: Path) -> OptimizerStatistics:
    """The statistics that a user hands over. Raises UserError."""
    try:
        return OptimizerStatistics.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"data.statistics: {path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole file"
        raise UserError(
            f"data.statistics: {path}: {where}: {first['msg']}",
            "a file of optimizer statistics is written by: mydyno servers statistics DSN --output FILE",
        ) from None


async def read_statistics(control: Control, schema: str) -> OptimizerStatistics:
    """Those of a schema's tables of InnoDB. Raises UserError where it has none, or without the right to read them."""
    tables: dict[str, dict[str, Any]] = {}
    try:
        of_tables = await control.rows(
            "SELECT table_name, n_rows, clustered_index_size, sum_of_other_index_sizes FROM mysql.innodb_table_stats "
            "WHERE database_name = %s",
            schema,
        )
        of_indexes = await control.rows(
            "SELECT table_name, index_name, stat_name, stat_value FROM mysql.innodb_index_stats "
            "WHERE database_name = %s",
            schema,
        )
    except ServerError as error:
        if server_code(error) != ER.TABLEACCESS_DENIED_ERROR:
            raise
        raise UserError(
            "the account may not read InnoDB's statistics",
            "an administrator allows it: GRANT SELECT ON mysql.innodb_table_stats TO …; "
            "GRANT SELECT ON mysql.innodb_index_stats TO …",
        ) from None
    for name, rows, clustered, other in of_tables:
        tables[str(name)] = {
            "rows": int(rows), "clustered_index_pages": int(clustered), "other_index_pages": int(other),
            "indexes": {}, "histograms": {},
        }  # fmt: skip
    if not tables:
        raise UserError(f"the schema {schema} has no statistics of InnoDB", "name another schema in the DSN")
    for name, index, statistic, value in of_indexes:
        if str(name) in tables:
            tables[str(name)]["indexes"].setdefault(str(index), {})[str(statistic)] = int(value)
    for name, column, histogram in await _histograms(control, schema):
        if str(name) in tables:
            tables[str(name)]["histograms"][str(column)] = json.loads(histogram)
    (version,) = (row[0] for row in await control.rows("SELECT VERSION()"))
    return OptimizerStatistics.model_validate({"server": str(version), "tables": tables})


async def _histograms(control: Control, schema: str) -> list[tuple[Any, ...]]:
    """None on MariaDB, and on MySQL before 8.0."""
    try:
        found = await control.rows(
            "SELECT TABLE_NAME, COLUMN_NAME, HISTOGRAM FROM information_schema.COLUMN_STATISTICS "
            "WHERE SCHEMA_NAME = %s",
            schema,
        )
    except ServerError as error:
        if server_code(error) != ER.UNKNOWN_TABLE:
            raise
        return []
    return list(found)


async def set_statistics(control: Control, schema: str, statistics: OptimizerStatistics) -> list[str]:
    """Set them for the tables that are there, and keep the server from computing its own; what could not be set.

    Raises ServerError where a table does not have them afterwards.
    """
    present = {
        str(row[0])
        for row in await control.rows(
            "SELECT table_name FROM mysql.innodb_table_stats WHERE database_name = %s", schema
        )
    }
    left_out = [f"the schema has no table {name}" for name in statistics.tables if name not in present]
    for name, table in statistics.tables.items():
        if name not in present:
            continue
        quoted = f"`{schema}`.`{name.replace('`', '``')}`"
        await control.rows(f"ALTER TABLE {quoted} STATS_PERSISTENT = 1, STATS_AUTO_RECALC = 0")
        await control.rows(
            "UPDATE mysql.innodb_table_stats SET n_rows = %s, clustered_index_size = %s, sum_of_other_index_sizes = %s "
            "WHERE database_name = %s AND table_name = %s",
            table.rows, table.clustered_index_pages, table.other_index_pages, schema, name,
        )  # fmt: skip
        for index, values in table.indexes.items():
            for statistic, value in values.items():
                await control.rows(
                    "UPDATE mysql.innodb_index_stats SET stat_value = %s WHERE database_name = %s AND table_name = %s "
                    "AND index_name = %s AND stat_name = %s",
                    value, schema, name, index, statistic,
                )  # fmt: skip
        for column, histogram in table.histograms.items():
            left_out += await _set_histogram(control, quoted, name, column, histogram)
        await control.rows(f"FLUSH TABLES {quoted}")
    await _check(control, schema, {name: table for name, table in statistics.tables.items() if name in present})
    return left_out


async def _set_histogram(control: Control, quoted: str, name: str, column: str, histogram: dict[str, Any]) -> list[str]:
    try:
        found = await control.rows(
            f"ANALYZE TABLE {quoted} UPDATE HISTOGRAM ON `{column.replace('`', '``')}` USING DATA %s",
            json.dumps(histogram),
        )
    except ServerError:
        return [f"this server takes no histogram of {name}.{column}"]
    problems = [str(row[-1]) for row in found if str(row[2]).lower() == "error"]
    return [f"histogram of {name}.{column}: {problems[0]}"] if problems else []


async def _check(control: Control, schema: str, wanted: dict[str, TableStatistics]) -> None:
    for name, table in wanted.items():
        rows = await control.rows(
            "SELECT n_rows FROM mysql.innodb_table_stats WHERE database_name = %s AND table_name = %s", schema, name
        )
        if [int(row[0]) for row in rows] != [table.rows]:
            raise ServerError(f"the statistics of {schema}.{name} are not those that were set")


async def analyze(control: Control, schema: str) -> None:
    """Have the server count the rows of each table: else the optimizer plans as if they were empty. Raises
    ServerError.
    """
    for (name,) in await control.rows(f"SELECT TABLE_NAME {_TABLES}", schema):
        quoted = ".".join(f"`{part.replace('`', '``')}`" for part in (schema, name))
        await control.rows(f"ANALYZE NO_WRITE_TO_BINLOG TABLE {quoted}")


async def tables_of(control: Control, schema: str) -> TablesRecord:
    """Number, rows and size by the server's statistics. Raises ServerError."""
    with suppress(ServerError):  # MySQL alone keeps them for a day
        await control.rows("SET SESSION information_schema_stats_expiry = 0")
    [(tables, rows, size_bytes)] = await control.rows(
        f"SELECT COUNT(*), SUM(TABLE_ROWS), SUM(DATA_LENGTH + INDEX_LENGTH) {_TABLES}", schema
    )
    return TablesRecord(tables=int(tables), rows=int(rows or 0), size_bytes=int(size_bytes or 0))
