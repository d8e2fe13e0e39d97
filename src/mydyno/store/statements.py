"""The records of a comparison of statements in a block: what `dynoload statements` wrote.

A server is named `arm/copy`. Times are in microseconds, one number for each visit of a statement and server: the mean
of the executions in that visit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pymysql.constants import FIELD_TYPE

from mydyno.errors import UserError

STATEMENTS_FILE = "statements.jsonl"
"""Beside the runs of a block."""
Array = NDArray[np.float64]
TYPES: dict[int, str] = {}
"""Types of columns by their numbers in the protocol."""
for _name, _number in vars(FIELD_TYPE).items():
    if _name.isupper():
        TYPES.setdefault(_number, _name)


@dataclass(frozen=True)
class Once:
    """One text of a statement, executed once on one server."""

    rows: int
    affected_rows: int
    error: int
    message: str
    checksum: str
    order: str | None
    warnings: tuple[tuple[int, str], ...]
    """Code and text of the first ones."""
    columns: tuple[tuple[str, str], ...]
    """Names and types."""
    varies: str
    """In what its result may differ on equal data: order, contents, number; empty: in nothing."""
    counters: Mapping[str, int]
    plan: Any
    """As the server explains it; None where it was not read."""


@dataclass
class ComparedStatement:
    """One digest in one block."""

    digest: str
    label: str
    """The digest, shortened so that it is recognised."""
    text: str
    count: int
    """Statements of the capture with this digest."""
    writes: bool
    examples: tuple[str, ...]
    not_repeated: str = ""
    """Why it has no visits."""
    once: list[dict[str, Once]] = field(default_factory=list)
    """{server: result} of each text."""
    executions: list[int] = field(default_factory=list)
    """Of each visit."""
    service_us: list[list[float]] = field(default_factory=list)
    """Visits × servers."""
    cpu_us: list[list[float] | None] = field(default_factory=list)
    executed: dict[str, str] = field(default_factory=dict)
    """{server: its own account of one execution}, of servers that have one, where it may be slower."""

    def logs(self, of: str) -> Array | None:
        """Logs of `service` or `cpu` times, visits × servers; None where a visit has none."""
        values = self.service_us if of == "service" else self.cpu_us
        if not values or any(one is None for one in values):
            return None
        found = np.array(values, dtype=np.float64)
        return np.log(np.maximum(found, 0.01))


@dataclass(frozen=True)
class Comparison:
    """The comparison in one block."""

    servers: tuple[str, ...]
    """`arm/copy`; the first is the control's first copy."""
    left_out: Mapping[str, tuple[int, int]]
    """{why statements were not compared: (digests, statements of the capture)}."""
    statements: tuple[ComparedStatement, ...]


def server_name(arm: str, copy: int) -> str:
    """The name of a lane in the records."""
    return f"{arm}/{copy}"


def read_comparison(path: Path) -> Comparison | None:
    """The records of a block; None where it has none. Raises UserError if the file is damaged."""
    try:
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except FileNotFoundError:
        return None
    try:
        return _comparison([json.loads(line) for line in lines])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UserError(f"{path}: damaged: {error}") from error


def _comparison(records: list[dict[str, Any]]) -> Comparison:
    header = records[0]
    servers = tuple(str(one["name"]) for one in header["servers"])
    found: list[ComparedStatement] = []
    for record in records[1:]:
        kind = record["record"]
        if kind == "end":
            break
        if kind == "statement":
            found.append(
                ComparedStatement(
                    digest=record["digest"],
                    label=record["label"],
                    text=record["text"],
                    count=int(record["count"]),
                    writes=bool(record["writes"]),
                    examples=tuple(record["examples"]),
                )
            )
            continue
        one = found[record["statement"]]
        if kind == "not_repeated":
            one.not_repeated = one.not_repeated or record["reason"]
        elif kind == "once":
            one.once.append(dict(zip(servers, map(_once, record["servers"]), strict=True)))
        elif kind == "executed":
            one.executed = {name: text for name, text in zip(servers, record["servers"], strict=True) if text}
        elif kind == "visit":
            one.executions.append(int(record["executions"]))
            one.service_us.append(record["service_us"])
            one.cpu_us.append(record["cpu_us"])
    else:
        raise ValueError("it ends before the comparison's end")
    left_out = {why: (int(one["digests"]), int(one["statements"])) for why, one in header["left_out"].items()}
    return Comparison(servers, left_out, tuple(found))


def _plan(plan: Any) -> Any:
    if not isinstance(plan, str):
        return plan
    try:
        return json.loads(plan, object_pairs_hook=_every_pair)
    except ValueError:
        return None


def _every_pair(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Each in its order: MariaDB 10.4 names every table of a join "table", in one object."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        found[f"{name} {len(found)}" if name in found else name] = value
    return found


def _once(record: dict[str, Any]) -> Once:
    return Once(
        rows=int(record["rows"]),
        affected_rows=int(record["affected_rows"]),
        error=int(record["error"]),
        message=record.get("message", ""),
        checksum=record["checksum"],
        order=record.get("order"),
        warnings=tuple((int(code), str(text)) for code, text in record.get("warnings", ())),
        columns=tuple((name, TYPES.get(kind, str(kind))) for name, kind in record["columns"]),
        varies=(record.get("varies") or {}).get("of", ""),
        counters=record.get("counters", {}),
        plan=_plan(record.get("plan")),
    )
