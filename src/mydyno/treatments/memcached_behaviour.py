"""The behaviour of a policy of the InnoDB memcached plugin, observed by SQL and by the protocol.

Two keys outside the load's key space are set, read, changed and deleted; no row of them remains in the table. With
w_batch_size > 1 a set is not committed at once, so SQL reads uncommitted rows here, and its UPDATE waits for the
plugin's commit (innodb_api_bk_commit_interval, 5 s).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mydyno.servers.memcached_protocol import MemcachedClient
from mydyno.servers.sql import Control

SET_KEY, ROW_KEY = "mydyno-proof-set", "mydyno-proof-row"
BY_PROTOCOL, BY_SQL = "by-protocol", "by-sql"
SELECT = "SELECT v FROM sbtest.kv WHERE k = %s"


@dataclass(frozen=True)
class ObservedBehaviour:
    """What was seen."""

    set_is_in_table: bool
    """A key set by the protocol is a row for SQL."""
    row_is_found: bool
    """A row inserted by SQL is found by get."""
    get_after_update: str | None
    """What get returns for the key set by the protocol after SQL changed its row; None: nothing."""
    row_is_deleted: bool
    """The protocol's delete of the row inserted by SQL removed it from the table."""


def expected(policies: Mapping[str, str]) -> ObservedBehaviour:
    """What these policies must do (`caching` reads the cache first, fills it by sets alone, and never refreshes it)."""
    table = ("innodb_only", "caching")
    cache = ("cache_only", "caching")
    set_in_table, set_in_cache = policies["set"] in table, policies["set"] in cache
    if policies["get"] in cache and set_in_cache:
        after_update: str | None = BY_PROTOCOL
    else:
        after_update = BY_SQL if policies["get"] in table and set_in_table else None
    return ObservedBehaviour(set_in_table, policies["get"] in table, after_update, policies["delete"] in table)


async def observed(client: MemcachedClient, control: Control) -> ObservedBehaviour:
    """Execute the operations and restore the table. Raises ServerError."""
    await control.rows("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
    await client.set(SET_KEY, BY_PROTOCOL.encode())
    set_is_in_table = await control.scalar(SELECT, SET_KEY) is not None
    await control.rows("INSERT INTO sbtest.kv VALUES (%s, %s, 0, 0, 0)", ROW_KEY, BY_SQL)
    row = await client.get(ROW_KEY)
    await control.rows("UPDATE sbtest.kv SET v = %s WHERE k = %s", BY_SQL, SET_KEY)
    after = await client.get(SET_KEY)
    await client.delete(ROW_KEY)
    deleted = await control.scalar(SELECT, ROW_KEY) is None
    await client.delete(SET_KEY)
    await control.rows("DELETE FROM sbtest.kv WHERE k IN (%s, %s)", SET_KEY, ROW_KEY)
    return ObservedBehaviour(set_is_in_table, row is not None, None if after is None else after.value.decode(), deleted)


def behaviour(observation: ObservedBehaviour) -> str:
    """The sentence for the report."""
    appears = "appears" if observation.set_is_in_table else "does not appear"
    found = "finds" if observation.row_is_found else "does not find"
    after = {BY_SQL: "the new value", BY_PROTOCOL: "the old value, from the cache", None: "nothing"}
    returned = after.get(observation.get_after_update, str(observation.get_after_update))
    deletes = "removes" if observation.row_is_deleted else "does not remove"
    return (
        f"a set {appears} in the table, get {found} a row inserted by SQL, "
        f"after an UPDATE by SQL get returns {returned}, delete {deletes} the row"
    )
