"""The tables of a schema: their statistics for the optimizer, and how large they are."""

from __future__ import annotations

from contextlib import suppress

from mydyno.errors import ServerError
from mydyno.model.stored.records import TablesRecord
from mydyno.servers.sql import Control

_TABLES = "FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_TYPE = 'BASE TABLE'"


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
