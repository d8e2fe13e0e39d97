"""What a plan does, in one line for each table: the same plan has the same lines, whatever server explained it.

From EXPLAIN FORMAT=JSON of MySQL (both of its forms) and MariaDB, or from the rows of EXPLAIN; without estimates of
rows and costs. Servers name accesses differently, so they are kinds: scan, index scan, range, lookup, index merge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

SORTS, TEMPORARY = "sort", "temporary table"
PRIMARY = "PRIMARY"
PUSHED = ("index_condition", "pushed_index_condition")
"""A condition that the engine examines in the index, before it reads the row."""
NUMBERED = re.compile(r"\d+>$")
MADE = re.compile(r"^<(materialized_)?subquery>$")
KINDS = {
    "ALL": "scan",
    "table": "scan",
    "index": "index scan",
    "index_scan": "index scan",
    "range": "range",
    "index_range_scan": "range",
    "index_skip_scan": "range",
    "group_index_skip_scan": "range",
    "multi_range_read": "lookup",
    "const": "lookup",
    "eq_ref": "lookup",
    "ref": "lookup",
    "ref_or_null": "lookup",
    "hash_ALL": "scan",
    "index_lookup": "lookup",
    "pushed_join_ref": "lookup",
    "rows_fetched_before_execution": "lookup",
    "index_merge": "index merge",
}
"""An access by the servers' names → its kind; others keep their name."""


def steps_of(plan: Any) -> tuple[str, ...]:
    """One line for each table in the order of joins, then what is done beside; empty without a plan.

    >>> steps_of({"query_block": {"table": {"table_name": "t", "access_type": "ref", "key": "a"}}})
    ('t: lookup by a',)
    """
    tables, beside = [], set()
    for kind, line in _walk(plan):
        if kind == "table":
            tables.append(line)
        else:
            beside.add(line)
    return (*tables, *sorted(beside))


def is_same(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether both read the same tables in the same order by the same accesses.

    Sorts and temporary tables are stated by each server in its own way, and are not compared.
    """
    beside = {SORTS, TEMPORARY}
    return [line for line in one if line not in beside] == [line for line in other if line not in beside]


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
    access = node.get("access_type")
    if node.get("using_filesort") is True or "filesort" in node or access == "sort":
        yield "beside", SORTS
    if node.get("using_temporary_table") is True or "temporary_table" in node or access == "temp_table_aggregate":
        yield "beside", TEMPORARY
    if isinstance(node.get("table_name"), str) and node["table_name"] != "<temporary>":
        how = node.get("index_access_type") or access
        is_pushed = any(node.get(name) for name in PUSHED)
        yield "table", _line(node["table_name"], how, node.get("key") or node.get("index_name"), is_pushed)
    for value in node.values():
        yield from _walk(value)


def _row(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A row of EXPLAIN without JSON."""
    extra = str(row.get("Extra") or "")
    if row["table"] is not None:
        yield "table", _line(str(row["table"]), row.get("type"), row.get("key"), "index condition" in extra)
    if "filesort" in extra:
        yield "beside", SORTS
    if "temporary" in extra:
        yield "beside", TEMPORARY


def _line(table: str, access: Any, key: Any, is_pushed: bool) -> str:
    table = MADE.sub("<subquery>", NUMBERED.sub(">", table))
    kind = KINDS.get(str(access), str(access or "?"))
    if kind == "index scan" and key == PRIMARY:
        return f"{table}: scan"  # the primary key of InnoDB is the table
    line = f"{table}: {kind} by {key}" if key else f"{table}: {kind}"
    return f"{line} with an index condition" if is_pushed else line
