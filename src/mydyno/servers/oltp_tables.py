"""sysbench's tables as they are on a server, compared with those of an experiment: rows, keys, indexes, text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mydyno.model.definition.experiment import DataSpec
from mydyno.servers.sql import Control


async def differences_of_tables(control: Control, names: Sequence[str], data: DataSpec) -> list[str]:
    """What the named tables (sbtest1, …) have that `data` does not say, of the first table that differs.

    Any seed will do, and more rows than `data` has: a load inserts some.
    """
    for name in names:
        rows = int(await control.scalar(f"SELECT COUNT(*) FROM `{name}`"))
        found = [] if rows >= data.rows else [f"{name} has {rows} rows, data.rows is {data.rows}"]
        found += await _differences_of_keys(control, name, data)
        text = await control.scalar(f"SELECT c FROM `{name}` ORDER BY id LIMIT 1")
        if text is not None and text_kind(str(text)) != data.text:
            found.append(f"the text of {name} is {text_kind(str(text))}, data.text is {data.text}")
        if found:
            return found
    return []


async def _differences_of_keys(control: Control, name: str, data: DataSpec) -> list[str]:
    by_index: dict[str, list[str]] = {}
    for row in await control.rows(f"SHOW INDEX FROM `{name}`"):
        by_index.setdefault(str(row[2]), []).append(str(row[4]))
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
