"""Records of compared statements (statements.jsonl) with planted differences."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mydyno.store.statements import STATEMENTS_FILE
from mydyno.store.study_folder import StudyFolder

SERVERS = ("old/1", "old/2", "new/1")
VISITS = 30
Change = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Made:
    """A statement as the records have it; `slower` and `change` are of the arm new."""

    text: str
    slower: float = 1.0
    noise: float = 0.02
    change: Change = lambda _once: None
    both: Change = lambda _once: None
    label: str = ""
    """Empty: the text."""


def plan(access: str) -> dict[str, Any]:
    return {
        "query_block": {"table": {"table_name": "item", "access_type": access, "key": None if access == "ALL" else "a"}}
    }


def fails(once: dict[str, Any]) -> None:
    once.update(error=1055, message="not in GROUP BY", rows=0)


def scans(once: dict[str, Any]) -> None:
    once.update(plan=plan("ALL"), counters={"Handler_read_rnd_next": 5001})


def warns(once: dict[str, Any]) -> None:
    once.update(warnings=[[1287, "'SQL_CALC_FOUND_ROWS' is deprecated"]], columns=[["a", 8]])


def other_rows(once: dict[str, Any]) -> None:
    once.update(checksum="beef")


PLANTED = (
    Made("SELECT planned", slower=4.0, change=scans),
    Made("SELECT cpu", slower=1.05),
    Made("SELECT failing", change=fails),
    Made("SELECT others", change=other_rows),
    Made("SELECT broken", change=fails, both=fails),
)

SAME = tuple(Made(f"SELECT same {number}") for number in range(60))


def write(folder: StudyFolder, made: tuple[Made, ...], starts: float = 0.004, seed: int = 5) -> None:
    """The records of each block, with a difference between starts of every server."""
    random = np.random.default_rng(seed)
    for block in {run.block for run in folder.runs()}:
        left_out = {"administers the server": {"digests": 1, "statements": 3}}
        servers = [{"name": one} for one in SERVERS]
        out: list[dict[str, Any]] = [{"record": "header", "servers": servers, "left_out": left_out}]
        start = random.normal(0, starts, len(SERVERS))
        for number, one in enumerate(made):
            digest = f"{number:016x}"
            out.append({"record": "statement", "statement": number, "digest": digest, "label": one.label or one.text,
                        "text": one.text, "count": 10, "writes": False, "examples": [f"{one.text} 1"]})  # fmt: skip
            results = []
            for server in SERVERS:
                once = {"rows": 2, "affected_rows": 0, "error": 0, "checksum": "feed",
                        "columns": [["a", 3]], "plan": plan("ref"),
                        "counters": {"Handler_read_key": 1, "Handler_read_next": 2}}  # fmt: skip
                one.both(once)
                if server == "new/1":
                    one.change(once)
                results.append(once)
            out.append({"record": "once", "statement": number, "text": 0, "servers": results})
            if any(once["error"] for once in results):
                out.append({"record": "not_repeated", "statement": number, "reason": "it fails"})
                continue
            own = random.normal(0, starts / 2, len(SERVERS))
            factors = np.exp(start + own) * np.array([1.0, 1.0, one.slower])
            for _ in range(VISITS):
                cpu = 200 * factors * random.lognormal(0, one.noise, len(SERVERS))
                service = cpu * random.lognormal(0.2, 10 * one.noise, len(SERVERS))
                out.append({"record": "visit", "statement": number, "executions": 8, "service_us": list(service),
                            "cpu_us": list(cpu)})  # fmt: skip
        out.append({"record": "executed", "statement": 0, "servers": ["-> Index lookup", None, "-> Table scan"]})
        out.append({"record": "end"})
        path = folder.block_path(block) / STATEMENTS_FILE
        path.write_text("".join(f"{json.dumps(one)}\n" for one in out))
