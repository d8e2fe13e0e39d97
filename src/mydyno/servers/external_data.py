"""The data of an external server: whether they are complete, and whether mydyno may write them."""

from __future__ import annotations

from mydyno.errors import UserError
from mydyno.model.definition.experiment import DataSpec
from mydyno.servers.sql import Address, Control

MARKER = "mydyno_made"
"""A table that mydyno puts into a schema that it filled; only such a schema, or an empty one, is ever written to."""


async def needs_data(address: Address, data: DataSpec, *, load_writes: bool, allow_writes: bool) -> bool:
    """Whether the data must be prepared. Raises UserError if that, or the load, would write without permission.

    `load_writes`: whether the load itself writes; `allow_writes`: whether --allow-writes was given.
    """
    async with Control(address) as control:
        found = await control.rows(
            "SELECT TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s", address.database
        )
        tables = {str(name): int(rows or 0) for name, rows in found}
        wanted = {f"sbtest{number}" for number in range(1, data.tables + 1)}
        missing = sorted(wanted - set(tables), key=lambda name: int(name.removeprefix("sbtest")))
        if (missing or load_writes) and not allow_writes:
            reason = f"{address.database} lacks {missing[0]}" if missing else "the load writes"
            raise UserError(
                f"server.dsn: {reason}, and an external server is not written to without permission (--allow-writes)",
                "--allow-writes, with an empty schema; or prepare the tables yourself and run a read-only workload",
            )
        if (missing or load_writes) and tables and MARKER not in tables:
            raise UserError(
                f"server.dsn: schema {address.database} contains {len(tables)} tables that mydyno did not create",
                "use an empty schema: mydyno does not write to a schema with other tables",
            )
        for name in sorted(wanted - set(missing)):
            rows = await control.scalar(f"SELECT COUNT(*) FROM `{name}`")
            if int(rows) < data.rows:
                raise UserError(f"server.dsn: {name} has {rows} rows, data.rows is {data.rows}")
    return bool(missing)


async def mark_as_made(address: Address) -> None:
    """Create the marker table, before the first row is written."""
    async with Control(address) as control:
        await control.rows(f"CREATE TABLE IF NOT EXISTS `{MARKER}` (made_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)")
