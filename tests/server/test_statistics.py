"""The optimizer's statistics of one server on another's tables: plans follow them, and a restart keeps them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mydyno.hosts.paths import HostPaths
from mydyno.servers.build import ServerBuild
from mydyno.servers.dsn import PASSWORD_VARIABLE
from mydyno.store.study_folder import StudyFolder
from tests.server.test_statements import capture
from tests.support.other_server import OtherServer, other_server
from tests.support.real import Program

PASSWORD = "not a secret"
EXPERIMENT = """
name = "with-statistics"
question = "Which plan?"
server.name = "mariadb-10.11"
validity = {{ steal = "99%", driver_cpu = 1 }}
data = {{ tables = 1, rows = 500{statistics} }}
[arms]
control = "one"
one = {{}}
other = {{ variables = {{ sort_buffer_size = 65536 }} }}
[[steps]]
replay = "some.capture"
statements = true
connections = 1
warmup = "0s"
measure = "1s"
[design]
blocks = 1
cycles = 1
slice = "0.5s"
quiet_wait = "0s"
"""
QUERY = "SELECT MAX(pad) FROM sbtest1"


@pytest.fixture
def production(build: ServerBuild) -> Iterator[OtherServer]:
    """A server whose table has, by its statistics, one value of k in all rows."""
    with other_server(build, f"IDENTIFIED BY '{PASSWORD}'") as made:
        made.sql(
            "USE sbtest",
            "CREATE TABLE sbtest1 (id INT PRIMARY KEY AUTO_INCREMENT, k INT, c CHAR(120), pad CHAR(60), KEY k_1 (k))",
            "INSERT INTO sbtest1 (k, c) SELECT 5, 'x' FROM seq_1_to_4000",
            "ANALYZE TABLE sbtest1",
            "GRANT SELECT ON mysql.innodb_table_stats TO bench",
        )
        yield made


def test_tables_get_the_statistics_of_another_server(
    real_paths: HostPaths, tmp_path: Path, production: OtherServer
) -> None:
    program = Program(tmp_path, real_paths, environment={PASSWORD_VARIABLE: PASSWORD})
    dsn = f"mysql://bench@localhost/sbtest?socket={production.socket}"
    done = program.run("servers", "statistics", dsn, "--output", "stats.json")
    assert done.returncode == 2
    assert "GRANT SELECT ON mysql.innodb_index_stats" in done.stderr
    production.sql("GRANT SELECT ON mysql.innodb_index_stats TO bench")
    done = program.run("servers", "statistics", dsn, "--output", "stats.json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("stats.json: 1 tables of sbtest, 0 histograms, 10.11"), done.stdout
    table = json.loads((tmp_path / "stats.json").read_text())["tables"]["sbtest1"]
    assert table["rows"] == pytest.approx(4000, rel=0.1)
    assert table["indexes"]["k_1"]["n_diff_pfx01"] == 1
    table["rows"] = 4_000_000
    (tmp_path / "more.json").write_text(
        json.dumps({"server": "10.11", "tables": {"sbtest1": table, "gone": {**table, "indexes": {}}}})
    )
    (tmp_path / "some.capture").write_text(capture((QUERY,)))
    estimated = {}
    for name, statistics in (("own", ""), ("set", ', statistics = "more.json"')):
        (tmp_path / f"{name}.toml").write_text(EXPERIMENT.format(statistics=statistics))
        done = program.run("run", f"{name}.toml", "--studies", name)
        assert done.returncode == 0, done.stderr
        (study,) = (tmp_path / name).iterdir()
        records = (StudyFolder(study).block_path(1) / "statements.jsonl").read_text().splitlines()
        once = next(one for one in map(json.loads, records) if one["record"] == "once")
        estimated[name] = json.loads(once["servers"][0]["plan"])["query_block"]["nested_loop"][0]["table"]["rows"]
    assert estimated["own"] == pytest.approx(500, rel=0.2)
    assert estimated["set"] == pytest.approx(4_000_000, rel=0.01), "also after the restarts of template and run"
    assert "data.statistics: the schema has no table gone" in done.stderr
    assert "with the optimizer statistics of more.json" in " ".join(done.stdout.split())
    wrong = program.run("plan", "own.toml", "--set", "data.statistics=some.capture")
    assert wrong.returncode == 2
    assert "data.statistics" in wrong.stderr and "mydyno servers statistics" in wrong.stderr
