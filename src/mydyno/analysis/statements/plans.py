"""What a plan does, in one line for each table: equal lines are the same plan, whatever server explained it.

From EXPLAIN FORMAT=JSON of MySQL and MariaDB, or from the rows of EXPLAIN; without estimates of rows and costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SORTS, TEMPORARY = "sort", "temporary table"


def steps_of(plan: Any) -> tuple[str, ...]:
    """One line for each table in the order of joins, then what is done beside; empty without a plan.

    >>> steps_of({"query_block": {"table": {"table_name": "t", "access_type": "ref", "key": "a"}}})
    ('t: ref by a',)
    """
    tables, beside = [], set()
    for kind, line in _walk(plan):
        if kind == "table":
            tables.append(line)
        else:
            beside.add(line)
    return (*tables, *sorted(beside))


def _walk(node: Any) -> Iterator[tuple[str, str]]:
    if isinstance(node, list):
        for one in node:
            yield from _walk(one)
        return
    if not isinstance(node, dict):
        return
    if "select_type" in node and "table" in node and not isinstance(node["table"], dict):
        yield from _row(node)
        return
    if node.get("using_filesort") is True or "filesort" in node:
        yield "beside", SORTS
    if node.get("using_temporary_table") is True or "temporary_table" in node:
        yield "beside", TEMPORARY
    if isinstance(node.get("table_name"), str):
        yield "table", _line(node["table_name"], node.get("access_type"), node.get("key") or node.get("index_name"))
    for value in node.values():
        yield from _walk(value)


def _row(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A row of EXPLAIN without JSON."""
    extra = str(row.get("Extra") or "")
    if row["table"] is not None:
        yield "table", _line(str(row["table"]), row.get("type"), row.get("key"))
    if "filesort" in extra:
        yield "beside", SORTS
    if "temporary" in extra:
        yield "beside", TEMPORARY


def _line(table: str, access: Any, key: Any) -> str:
    words = f"{table}: {access or '?'}"
    return f"{words} by {key}" if key else words
