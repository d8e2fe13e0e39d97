"""Statements of a capture, one by one, on real servers: each planted difference is found, and what writes is undone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mydyno.hosts.paths import HostPaths
from mydyno.model.stored.analyses import StatementRecord
from mydyno.store.study_folder import StudyFolder
from tests.support.real import Program

EXPERIMENT = """
name = "planted-statements"
question = "Which statements change?"
server.name = "mariadb-10.11"
data = { tables = 2, rows = 2000 }
validity = { steal = "99%", driver_cpu = 1 }
[arms]
control = "old"
old = {}
[arms.new.variables]
sql_mode = "ONLY_FULL_GROUP_BY"
div_precision_increment = 1
optimizer_switch = "derived_merge=off"
[[steps]]
replay = "some.capture"
statements = true
connections = 1
warmup = "0s"
measure = "3s"
[design]
blocks = 2
cycles = 2
slice = "0.5s"
washout = "0s"
quiet_wait = "0s"
"""
FAILS = "SELECT k, c FROM sbtest1 GROUP BY k ORDER BY k LIMIT 5"
OTHER_ROWS = "SELECT k / 7 FROM sbtest1 WHERE id = 9"
OTHER_PLAN = "SELECT d.c FROM (SELECT id, c FROM sbtest2) d WHERE d.id = 20"
WRITES = ("UPDATE sbtest1 SET k = k + 1 WHERE id = 11", "DELETE FROM sbtest2 WHERE id = 20")
SAME = ("SELECT c FROM sbtest1 WHERE id = 4", "SELECT COUNT(*) FROM sbtest2 WHERE id BETWEEN 5 AND 25")
# The two bytes of é are two characters of latin1.
LATIN1 = "SELECT c FROM sbtest1 WHERE id = 4 AND LENGTH(CONVERT('é' USING utf8mb4)) = 4"
LEFT_OUT = ("COMMIT", "SET @a = 1", "SHOW TABLES")


def capture(statements: tuple[str, ...]) -> str:
    """These statements, one after another."""
    header = {
        "record": "header", "format": "dynoload-capture", "format_version": 1, "source": "general_log",
        "resolution_us": 1, "spread": False, "anonymised": False, "duration_us": 10_000, "sessions": 1,
        "peak_sessions": 1, "events": len(statements), "statements": len(statements),
    }  # fmt: skip
    events = [
        {"record": "statement", "at_us": place, "session": 1, "schema": "sbtest", "text": text}
        for place, text in enumerate(statements)
    ]
    return "".join(f"{json.dumps(line)}\n" for line in (header, *events))


def test_each_planted_difference_is_found_and_what_writes_is_undone(real_paths: HostPaths, tmp_path: Path) -> None:
    program = Program(tmp_path, real_paths)
    statements = (FAILS, OTHER_ROWS, OTHER_PLAN, LATIN1, *WRITES, *SAME, *LEFT_OUT)
    (tmp_path / "some.capture").write_text(capture(("SET NAMES latin1", *statements)))
    (tmp_path / "planted.toml").write_text(EXPERIMENT)
    done = program.run("run", "planted.toml", "--studies", "studies")
    assert done.returncode == 0, done.stderr
    (study,) = (tmp_path / "studies").iterdir()
    summary = StudyFolder(study).summary()
    assert summary is not None and summary.statements is not None
    (new,) = summary.statements.arms
    found: dict[str, StatementRecord] = {one.example: one for one in new.statements}
    assert found[FAILS].verdict == "fails" and "error 1055" in found[FAILS].why
    assert found[OTHER_ROWS].verdict == "other_rows" and found[OTHER_ROWS].why == "its rows have other values"
    planned = found[OTHER_PLAN]
    assert planned.plan_changed and planned.plans[0] == ("sbtest2: lookup by PRIMARY",), planned.plans
    for text in SAME:
        assert not found[text].plan_changed, found[text]
        examined = found[text].rows_examined
        assert examined is not None and examined[0] == examined[1], found[text]
    for text in (*WRITES, *SAME, OTHER_PLAN):
        one = found[text]
        assert one.verdict not in ("fails", "other_rows", "not_compared"), one
        assert one.service is not None and one.cpu is not None and one.cpu.control_us > 0, one
    lines = (StudyFolder(study).block_path(1) / "statements.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]

    def once_of(text: str) -> list[dict[str, Any]]:
        number = next(one["statement"] for one in records if one.get("examples") == [text])
        return next(one["servers"] for one in records if one["record"] == "once" and one["statement"] == number)

    # It had been executed before, to see whether it can be rolled back.
    assert [one["affected_rows"] for one in once_of(WRITES[1])] == [1, 1, 1]
    assert [one["rows"] for one in once_of(LATIN1)] == [1, 1, 1]
    assert {statements for _, statements in summary.statements.left_out.values()} == {1, 3}
    assert done.stdout.count("Of 8 statements") == 1, done.stdout
    assert "1 fails; 1 returns other rows" in " ".join(done.stdout.split())
