"""What `plan` finds in the files of an experiment, read by the real engine; no server is started."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from mydyno.execution.planning.preview import preview
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import DataSpec, StepSpec
from tests.server.support import small_experiment

HEADER = {
    "record": "header", "format": "dynoload-capture", "format_version": 1, "source": "slow_log", "resolution_us": 1,
    "spread": False, "anonymised": False, "duration_us": 1_000_000, "sessions": 1, "peak_sessions": 1, "events": 1,
    "statements": 1,
}  # fmt: skip
TABLES = '[[tables]]\nname = "t"\nrows = 5\n[tables.columns]\nid = { type = "INT", values = "RULE" }\n'


def obstacles(paths: HostPaths, step: dict[str, object], data: DataSpec | None = None) -> list[str]:
    asked = small_experiment()
    spec = StepSpec.model_validate({"connections": [1, 2], "warmup": 1, "measure": 2, **step})
    asked = asked.model_copy(update={"steps": (spec,), "data": data or asked.data})
    return list(asyncio.run(preview(asked, paths)).forecast.obstacles)


@pytest.mark.parametrize(
    ("kind", "name", "text", "words"),
    [
        ("sql", "shop.sql", "SELECT 1;\nSELECT {a: unifrom(1, 2)};\n", ["shop.sql:2:", "unifrom"]),
        ("sql", "shop.sql", "SELECT 1;\nDROP DATABASE shop;\n", ["shop.sql:2:", "the schema shop"]),
        ("script", "shop.lua", "function event()\n  x = = 1\nend\n", ["shop.lua:2:", "syntax"]),
        ("replay", "shop.capture", json.dumps(HEADER) + "\n{broken\n", ["shop.capture", "line 2"]),
    ],
)
def test_a_file_of_a_step_is_refused_with_the_line_before_a_server_starts(
    real_paths: HostPaths, tmp_path: Path, kind: str, name: str, text: str, words: list[str]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    [obstacle] = obstacles(replace(real_paths, data=tmp_path), {kind: str(path)})
    assert all(word in obstacle for word in words), obstacle
    assert obstacle.startswith("load level shop-1: "), obstacle


@pytest.mark.parametrize(
    ("kind", "name", "text", "words"),
    [
        ("sql", "tables.toml", TABLES.replace("RULE", "sequense(1)"), ["tables.toml", "sequense"]),
        ("sql", "dump.sql", "USE a;\nUSE b;\n", ["line 2"]),
        ("script", "made.lua", "function prepare(\n", ["made.lua:", "syntax"]),
    ],
)
def test_a_file_of_the_data_is_too(
    real_paths: HostPaths, tmp_path: Path, kind: str, name: str, text: str, words: list[str]
) -> None:
    path, load = tmp_path / name, tmp_path / "load.sql"
    path.write_text(text)
    load.write_text("SELECT 1;\n")
    data = DataSpec.model_validate({"workload": kind, kind: str(path)})
    [obstacle] = obstacles(real_paths, {"sql": str(load)}, data)
    assert all(word in obstacle for word in words), obstacle
    assert obstacle.startswith(f"data.{kind}: "), obstacle


def test_nothing_of_a_script_is_executed_and_good_files_are_accepted(real_paths: HostPaths, tmp_path: Path) -> None:
    path, trace = tmp_path / "shop.lua", tmp_path / "executed"
    path.write_text(f"io.open('{trace}', 'w'):close()\nfunction event() end\n")
    assert obstacles(real_paths, {"script": str(path), "options": {"tables": 2}}) == []
    assert not trace.exists()
    tables = tmp_path / "tables.toml"
    tables.write_text(TABLES.replace("RULE", "sequence(1)"))
    load = tmp_path / "load.sql"
    load.write_text("SELECT {a: uniform(1, 2)};\n")
    assert obstacles(real_paths, {"sql": str(load), "rate": [50]}, DataSpec(workload="sql", sql=str(tables))) == []
