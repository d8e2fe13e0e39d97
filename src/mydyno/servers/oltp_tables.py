"""sysbench's tables as they are on a server, compared with those of an experiment: how they are stored, what works on
each change of a row, rows, keys, indexes, text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mydyno.model.definition.experiment import DataSpec
from mydyno.servers.sql import Control

COLUMNS = {"id": "int", "k": "int", "c": "char(120)", "pad": "char(60)"}
"""The columns of sysbench's tables and their types; none may be NULL."""


async def differences_of_tables(control: Control, names: Sequence[str], data: DataSpec) -> list[str]:
    """What the named tables (sbtest1, …) have that `data` does not say, of the first table that differs.

    Any seed will do, and more rows than `data` has: a load inserts some.
    """
    for name in names:
        if found := await _differences_of_storage(control, name):
            return found
        if found := await _differences_of_columns(control, name):
            return found
        rows = int(await control.scalar(f"SELECT COUNT(*) FROM `{name}`"))
        found = [] if rows >= data.rows else [f"{name} has {rows} rows, data.rows is {data.rows}"]
        found += await _differences_of_keys(control, name, data)
        text = await control.scalar(f"SELECT c FROM `{name}` ORDER BY id LIMIT 1")
        if text is not None and text_kind(str(text)) != data.text:
            found.append(f"the text of {name} is {text_kind(str(text))}, data.text is {data.text}")
        if found:
            return found
    return []


async def _differences_of_storage(control: Control, name: str) -> list[str]:
    """What a prepared table has not: another engine, partitions, another row format, triggers, …"""
    here = "TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s"
    rows = await control.rows(
        f"SELECT TABLE_TYPE, ENGINE, CREATE_OPTIONS, TABLE_COLLATION FROM information_schema.TABLES WHERE {here}", name
    )
    kind, engine, options, collation = ("" if one is None else str(one) for one in rows[0])
    if kind != "BASE TABLE":
        return [f"{name} is a {kind.lower()}, not a table"]
    found = [] if engine == "InnoDB" else [f"{name} is a table of the engine {engine}, not of InnoDB"]
    found += [f"{name} is made with {option}" for option in options.split() if not option.startswith("stats_")]
    usual = await control.scalar(
        "SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = DATABASE()"
    )
    if collation != str(usual):
        found.append(f"the collation of {name} is {collation}, the schema's is {usual}")
    for table, where, what in (
        ("TRIGGERS", "EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = %s", "triggers"),
        ("TABLE_CONSTRAINTS", "TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s AND CONSTRAINT_TYPE = 'CHECK'",
         "CHECK constraints"),
        ("REFERENTIAL_CONSTRAINTS", "CONSTRAINT_SCHEMA = DATABASE() AND %s IN (TABLE_NAME, REFERENCED_TABLE_NAME)",
         "foreign keys"),
    ):  # fmt: skip
        if count := int(await control.scalar(f"SELECT COUNT(*) FROM information_schema.{table} WHERE {where}", name)):
            found.append(f"{name} has {what} ({count})")
    return found


async def _differences_of_columns(control: Control, name: str) -> list[str]:
    """Columns that are missing, of another type or collation, computed, or not sysbench's."""
    rows = await control.rows(
        "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, EXTRA, C.COLLATION_NAME, TABLE_COLLATION "
        "FROM information_schema.COLUMNS C JOIN information_schema.TABLES USING (TABLE_SCHEMA, TABLE_NAME) "
        "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s",
        name,
    )
    found: list[str] = []
    for row in rows:
        column, kind, nullable, extra, collation, of_table = ("" if one is None else str(one) for one in row)
        # A server before 8.0.19 writes a display width: int(11).
        kind = re.sub(r"^int\(\d+\)", "int", kind) + (" NULL" if nullable == "YES" else "")
        wanted = COLUMNS.get(column)
        if wanted is None:
            found.append(f"{name} has the column {column} besides")
        elif kind != wanted:
            found.append(f"{name}.{column} is {kind}, not {wanted}")
        elif collation not in ("", of_table):
            found.append(f"the collation of {name}.{column} is {collation}, the table's is {of_table}")
        elif extra not in ("", "auto_increment"):
            found.append(f"{name}.{column} is {extra}")
    there = {str(row[0]) for row in rows}
    return [f"{name} has no column {column}" for column in COLUMNS if column not in there] + found


async def _differences_of_keys(control: Control, name: str, data: DataSpec) -> list[str]:
    by_index: dict[str, list[str]] = {}
    for row in await control.rows(f"SHOW INDEX FROM `{name}`"):
        by_index.setdefault(str(row[2]), []).append(str(row[4]))
        # The last columns are Visible and Expression (MySQL 8.0), or Ignored (MariaDB 10.6).
        if row[13:14] == (("NO",) if len(row) > 14 else ("YES",)):
            return [f"the index {row[2]} of {name} is not used by the optimizer"]
    found = {f"{'primary key' if index == 'PRIMARY' else 'index'} ({', '.join(columns)})"
             for index, columns in by_index.items()}  # fmt: skip
    wanted = {"index (id)" if data.secondary else "primary key (id)", "index (k)"}
    extra = [str(row[5]) for row in await control.rows(f"SHOW COLUMNS FROM `{name}` LIKE 'id'")]
    differences = [f"{name} has no {one}" for one in sorted(wanted - found)]
    differences += [f"{name} has the {one} besides" for one in sorted(found - wanted)]
    if ("auto_increment" in extra) != data.auto_inc:
        differences.append(
            f"{name}.id is {'not ' if data.auto_inc else ''}AUTO_INCREMENT, data.auto_inc is "
            f"{str(data.auto_inc).lower()}"
        )
    return differences


def text_kind(text: str) -> str:
    """digits, words or random: which of data.text a row's c is."""
    if re.fullmatch(r"[0-9-]*", text):
        return "digits"
    return "words" if " " in text else "random"
