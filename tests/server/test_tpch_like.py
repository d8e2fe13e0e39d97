"""The decision support load: every query gives the rows that another database gives of the same tables."""

from __future__ import annotations

import json
import math
import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from mydyno.experiments import STANDARD_FOLDER
from mydyno.hosts.paths import HostPaths
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.sql import Control
from tests.server.test_standard_loads import dynoload

pytestmark = pytest.mark.exhaustive

NAME = "tpch-like"
TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
QUERIES = 22
RULE = re.compile(
    r"\{(?:(?P<name>\w+): )?(?:uniform\((?P<low>\d+), \d+\)|choice\((?P<first>'[^']*'),[^)]*\))\}|\{(?P<again>\w+)\}"
)


def queries() -> dict[str, str]:
    """name → its statement with the first value of every rule in the rule's place."""
    found = {}
    for part in (STANDARD_FOLDER / f"{NAME}.sql").read_text().split("-- transaction: ")[1:]:
        name, _, rest = part.partition("\n")
        named: dict[str, str] = {}

        def value(rule: re.Match[str], named: dict[str, str] = named) -> str:
            if rule["again"]:
                return named[rule["again"]]
            named[rule["name"]] = rule["low"] or rule["first"]
            return named[rule["name"]]

        found[name.strip()] = RULE.sub(value, rest.partition("\n")[2].strip().rstrip(";"))
    return found


def plain(value: Any) -> Any:
    """Numbers as floats, times as dates: what both databases can say alike."""
    if isinstance(value, (Decimal, int, float)):
        return float(value)
    return value.date() if isinstance(value, datetime) else value


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-4)  # MySQL rounds quotients of decimals to 4 digits
    return bool(one == other)


async def copied(control: Control, columns_of: dict[str, str]) -> duckdb.DuckDBPyConnection:
    """A database of DuckDB with these columns of the server's tables."""
    other = duckdb.connect(":memory:")
    for table, columns in columns_of.items():
        rows = await control.rows(f"SELECT {columns} FROM {table}")
        assert rows
        named = [row[0] for row in await control.rows(f"SHOW COLUMNS FROM {table}")] if columns == "*" else None
        names = named or columns.split(", ")
        values = zip(*rows, strict=True)
        other.register("incoming", {name: np.array(of, object) for name, of in zip(names, values, strict=True)})
        other.execute(f"CREATE TABLE {table} AS SELECT * FROM incoming")
    return other


async def compare(control: Control, other: duckdb.DuckDBPyConnection, statements: dict[str, str]) -> None:
    """Every statement has rows, and both databases give the same."""
    empty = []
    for name, statement in statements.items():
        assert "{" not in statement, statement
        ours = [tuple(map(plain, row)) for row in await control.rows(statement)]
        theirs = [tuple(map(plain, row)) for row in other.execute(statement).fetchall()]
        assert len(ours) == len(theirs), name
        for one, another in zip(ours, theirs, strict=True):
            assert all(map(alike, one, another)), (name, one, another)
        if not ours or ours == [(None,)]:
            empty.append(name)
    assert empty == [], "a query without rows checks nothing"


async def test_every_query_runs_under_load_and_gives_the_right_rows(
    instance: MysqldServer, real_paths: HostPaths, tmp_path: Path
) -> None:
    await instance.start()
    dynoload(real_paths, instance, "prepare", str(STANDARD_FOLDER / f"{NAME}.toml"), "--threads", "2")
    async with instance.control() as control:
        await control.rows("USE sbtest")
        assert len(queries()) == QUERIES
        await compare(control, await copied(control, dict.fromkeys(TABLES, "*")), queries())
        lines = await control.rows(
            "SELECT MIN(n), MAX(n) FROM (SELECT COUNT(*) AS n FROM lineitem GROUP BY l_orderkey) x"
        )
        assert lines == [(1, 7)]
        foreign = (
            "SELECT COUNT(*) FROM lineitem LEFT JOIN partsupp ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey"
        )
        assert await control.scalar(f"{foreign} WHERE ps_id IS NULL") == 0
        assert await control.scalar("SELECT MAX(l_shipdate) FROM lineitem") < date(1999, 1, 1)
    result = tmp_path / "load.json"
    dynoload(
        real_paths, instance, "run", str(STANDARD_FOLDER / f"{NAME}.sql"), "--connections", "2", "--duration", "3s",
        "--json", str(result),
    )  # fmt: skip
    counts: dict[str, Any] = json.loads(result.read_text().splitlines()[-1])["whole_load_counts"]
    assert counts["transactions"] > 0
    assert counts["errors"] == 0


async def test_tables_at_another_scale_are_larger_and_fit_together(
    instance: MysqldServer, real_paths: HostPaths
) -> None:
    await instance.start()
    dynoload(real_paths, instance, "prepare", str(STANDARD_FOLDER / f"{NAME}.toml"), "--scale", "0.02")
    async with instance.control() as control:
        await control.rows("USE sbtest")
        counts = {table: await control.scalar(f"SELECT COUNT(*) FROM {table}") for table in TABLES}
        assert counts == {
            "region": 5, "nation": 25, "supplier": 200, "customer": 3000, "part": 4000, "partsupp": 16_000,
            "orders": 30_000, "lineitem": 120_000,
        }  # fmt: skip
        orphans = {
            "lineitem LEFT JOIN partsupp ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey": "ps_id",
            "lineitem LEFT JOIN orders ON o_orderkey = l_orderkey": "o_orderkey",
            "partsupp LEFT JOIN supplier ON s_suppkey = ps_suppkey": "s_suppkey",
            "partsupp LEFT JOIN part ON p_partkey = ps_partkey": "p_partkey",
        }
        for join, key in orphans.items():
            assert await control.scalar(f"SELECT COUNT(*) FROM {join} WHERE {key} IS NULL") == 0, join
        suppliers = "SELECT COUNT(DISTINCT ps_partkey, ps_suppkey), COUNT(DISTINCT ps_suppkey) FROM partsupp"
        assert await control.rows(suppliers) == [(16_000, 200)]
        columns = {
            "nation": "*", "region": "*", "supplier": "*", "part": "*", "partsupp": "*", "customer": "c_custkey",
            "orders": "o_orderkey, o_custkey, o_comment",
            "lineitem": "l_quantity, l_extendedprice, l_discount, l_shipdate",
        }  # fmt: skip
        few = ("important_stock", "cheapest_supplier", "order_counts", "forecast")
        await compare(control, await copied(control, columns), {name: queries()[name] for name in few})
