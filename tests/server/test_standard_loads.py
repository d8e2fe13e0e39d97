"""The loads that come with mydyno as SQL files: each runs without an error, and leaves the data as its rules say."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mydyno.experiments import STANDARD_FOLDER
from mydyno.hosts.paths import HostPaths
from mydyno.servers.running.base import LOAD_USER
from mydyno.servers.running.mysqld import MysqldServer
from tests.support import first_in_gate
from tests.support.patience import HANG_S

LOADS = {"ycsb": [f"ycsb-{letter}" for letter in "abcdef"], "social-graph": ["social-graph"],
         "time-series": ["time-series"], "bulk-import": ["bulk-import"]}  # fmt: skip
ELSEWHERE = "tpch-like"
"""Tested in test_tpch_like.py."""


def dynoload(paths: HostPaths, instance: MysqldServer, *arguments: str) -> str:
    options = ["--socket", str(instance.socket), "--user", LOAD_USER, "--database", "sbtest"]
    done = subprocess.run(
        [paths.program("dynoload"), "sql", *arguments, *options], capture_output=True, text=True, timeout=HANG_S,
        check=False, env={**os.environ, "DYNO_PASSWORD": instance.credentials.load},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_file_is_tried() -> None:
    assert {path.stem for path in STANDARD_FOLDER.glob("*.toml")} == {*LOADS, ELSEWHERE}
    assert {path.stem for path in STANDARD_FOLDER.glob("*.sql")} == {
        ELSEWHERE, *(name for names in LOADS.values() for name in names)
    }  # fmt: skip


@pytest.mark.parametrize("data", first_in_gate(LOADS))
async def test_a_load_runs_without_errors_and_keeps_its_rules(
    instance: MysqldServer, real_paths: HostPaths, tmp_path: Path, data: str
) -> None:
    await instance.start()
    dynoload(real_paths, instance, "prepare", str(STANDARD_FOLDER / f"{data}.toml"))
    for name in LOADS[data]:
        result = tmp_path / f"{name}.json"
        dynoload(
            real_paths, instance, "run", str(STANDARD_FOLDER / f"{name}.sql"), "--connections", "4", "--duration",
            "1500ms", "--json", str(result),
        )  # fmt: skip
        last: dict[str, Any] = json.loads(result.read_text().splitlines()[-1])
        counts = last["whole_load_counts"]
        assert counts["transactions"] > 20, counts
        assert counts["errors"] == 0, counts
    async with instance.control() as control:
        await control.rows("USE sbtest")
        if data == "ycsb":
            fields = " AND ".join(f"LENGTH(field{number}) = 100" for number in range(10))
            rows, whole = (await control.rows(f"SELECT COUNT(*), SUM({fields}) FROM usertable"))[0]
            assert rows == whole > 50_000, "D and E insert"
        elif data == "social-graph":
            grown = await control.scalar("SELECT COUNT(*) - 100000 FROM link")
            assert grown == await control.scalar("SELECT SUM(links) FROM link_change")
            assert await control.scalar("SELECT SUM(version) FROM link") > 0, "links are updated"
            assert await control.scalar("SELECT MIN(links) FROM link_change") < 0, "links are deleted"
        elif data == "bulk-import":
            first, last, rows = (await control.rows("SELECT MIN(id), MAX(id), COUNT(*) FROM imported"))[0]
            assert rows % 100 == 0, "inserts of a hundred rows, purges of thousands"
            assert last > 52_000, "twenty inserts at least"
            assert rows <= last - first + 1
        else:
            first = await control.scalar("SELECT MIN(id) FROM sample")
            assert first % 100 == 1 and first > 1, "purged by hundreds, the oldest first"
            assert await control.scalar("SELECT MAX(id) FROM sample") > 200_000


ALONE = {"update_link": "SELECT SUM(version) FROM link", "delete_link": "SELECT -COUNT(*) FROM link",
         "delete_object": "SELECT -COUNT(*) FROM node"}  # fmt: skip
"""Transactions of the graph, and what grows by one with each row that one of them changes."""


@pytest.mark.parametrize("name", first_in_gate(ALONE))
async def test_updates_and_deletes_of_the_graph_mostly_find_a_row(
    instance: MysqldServer, real_paths: HostPaths, tmp_path: Path, name: str
) -> None:
    await instance.start()
    dynoload(real_paths, instance, "prepare", str(STANDARD_FOLDER / "social-graph.toml"))
    whole = (STANDARD_FOLDER / "social-graph.sql").read_text()
    (transaction,) = re.findall(
        rf"^-- transaction: {name} .*?(?=^-- transaction: |\Z)", whole, re.DOTALL | re.MULTILINE
    )
    file, result = tmp_path / "alone.sql", tmp_path / "alone.json"
    file.write_text(transaction)
    async with instance.control() as control:
        await control.rows("USE sbtest")
        before = await control.scalar(ALONE[name])
        dynoload(
            real_paths, instance, "run", str(file), "--connections", "2", "--events", "1000", "--json", str(result)
        )
        changed = await control.scalar(ALONE[name]) - before
    last: dict[str, Any] = json.loads(result.read_text().splitlines()[-1])
    assert last["whole_load_counts"]["transactions"] == 1000
    assert changed >= 500, f"{changed} of 1000 found a row"
