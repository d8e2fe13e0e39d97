"""Data that are found on an external server: compared with the experiment's, completed, or refused."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mydyno.drivers.dynoload import Dynoload
from mydyno.errors import DriverError, HostError, UserError
from mydyno.execution.environments.external_environment import open_external_environment
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import vocabulary
from mydyno.hosts.paths import HostPaths
from mydyno.servers.build import ServerBuild
from mydyno.servers.dsn import PASSWORD_VARIABLE
from tests.support.other_server import OtherServer, other_server

PASSWORD = "not a secret"
EXPERIMENT = """
name = "data-{pid}"
question = "Are they those of the experiment?"
data = {{ {data} }}
[server]
dsn = "mysql://bench@127.0.0.1:{port}/sbtest"
[arms]
control = "plain"
plain = {{ compression = "off" }}
[[steps]]
workload = "{workload}"
connections = 1
warmup = "1s"
measure = "1s"
"""
SMALL = "tables = 1, rows = 1000"


@dataclass
class External:
    """A server that mydyno did not start, with an empty schema."""

    server: OtherServer
    paths: HostPaths
    folder: Path

    @property
    def sql(self) -> Callable[..., list[tuple[object, ...]]]:
        """The rows of the last statement."""
        return self.server.sql

    def said(self, data: str, *, allow_writes: bool = True, workload: str = "select_random_points") -> str:
        """What is said before the first run of a study with such data."""
        text = EXPERIMENT.format(pid=os.getpid(), data=data, port=self.server.port, workload=workload)
        experiment = parse_experiment(TomlSource.parse("data.toml", text), vocabulary())
        paths = replace(self.paths, allow_writes=allow_writes)
        words: list[str] = []

        async def open_and_fill() -> None:
            name = f"data-{os.getpid()}-x"
            environment = await open_external_environment(paths, experiment, name, self.folder, words.append)
            try:
                await environment.template(experiment.arms[0], words.append)
            finally:
                assert environment.close() == []

        asyncio.run(open_and_fill())
        return "\n".join(words)


@pytest.fixture
def external(
    build: ServerBuild, real_paths: HostPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[External]:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    with other_server(build, f"IDENTIFIED BY '{PASSWORD}'") as server:
        yield External(server, real_paths, tmp_path)


def test_tables_of_another_shape_are_refused_with_what_differs(external: External) -> None:
    assert "preparing data in sbtest" in external.said(SMALL)
    assert "data in sbtest" not in external.said(SMALL, allow_writes=False)
    for changed, words in (
        ('text = "words"', 'data.text was "digits" when they were prepared, and is "words"'),
        ("secondary = true", "data.secondary was false when they were prepared, and is true"),
        ("auto_inc = false", "data.auto_inc was true when they were prepared, and is false"),
    ):
        with pytest.raises(HostError, match=words):
            external.said(f"{SMALL}, {changed}")
    with pytest.raises(HostError, match=r"data\.rows was 1000 when they were prepared, and is 500"):
        external.said("tables = 1, rows = 500")
    external.sql("DROP INDEX k_1 ON sbtest.sbtest1")
    with pytest.raises(HostError, match=r"sbtest1 has no index \(k\)") as error:
        external.said(SMALL)
    assert "mydyno_made" in error.value.hint

    # The same tables as the user's own: what was prepared is not recorded, and they are looked at.
    external.sql("DROP TABLE sbtest.mydyno_made", "CREATE INDEX k_1 ON sbtest.sbtest1 (k)")
    assert "data in sbtest" not in external.said(SMALL, allow_writes=False)
    for changed, words in (
        ('text = "random"', "the text of sbtest1 is digits, data.text is random"),
        ("secondary = true", r"sbtest1 has no index \(id\); sbtest1 has the primary key \(id\) besides"),
        ("auto_inc = false", "sbtest1.id is AUTO_INCREMENT, data.auto_inc is false"),
    ):
        with pytest.raises(HostError, match=words):
            external.said(f"{SMALL}, {changed}", allow_writes=False)
    with pytest.raises(HostError, match=r"sbtest1 has 1000 rows, data\.rows is 1001"):
        external.said("tables = 1, rows = 1001", allow_writes=False)
    external.sql("CREATE INDEX c_1 ON sbtest.sbtest1 (c)")
    with pytest.raises(HostError, match=r"sbtest1 has the index \(c\) besides"):
        external.said(SMALL, allow_writes=False)


def test_tables_that_are_stored_in_another_way_are_refused(external: External) -> None:
    external.said(SMALL)
    external.sql("DROP TABLE sbtest.mydyno_made")
    table = "ALTER TABLE sbtest.sbtest1"
    for change, back, words in (
        (f"{table} ENGINE = MyISAM", f"{table} ENGINE = InnoDB", "the engine MyISAM, not of InnoDB"),
        (f"{table} PARTITION BY HASH (id) PARTITIONS 4", f"{table} REMOVE PARTITIONING", "made with partitioned"),
        (f"{table} ROW_FORMAT = COMPRESSED", f"{table} ROW_FORMAT = DEFAULT", "(?i)made with row_format=compressed"),
        (f"{table} MODIFY k BIGINT NOT NULL DEFAULT 0", f"{table} MODIFY k INT NOT NULL DEFAULT 0",
         r"sbtest1\.k is bigint.*, not int"),
        (f"{table} MODIFY pad CHAR(60)", f"{table} MODIFY pad CHAR(60) NOT NULL DEFAULT ''",
         r"sbtest1\.pad is char\(60\) NULL, not char\(60\)"),
        (f"{table} MODIFY c CHAR(120) CHARACTER SET utf8mb4 NOT NULL",
         f"{table} MODIFY c CHAR(120) CHARACTER SET latin1 NOT NULL DEFAULT ''",
         r"the collation of sbtest1\.c is utf8mb4_\w+, the table's is latin1_swedish_ci"),
        (f"{table} DROP COLUMN pad, ADD pad CHAR(60) AS ('x') STORED",
         f"{table} DROP COLUMN pad, ADD pad CHAR(60) NOT NULL DEFAULT ''", r"sbtest1\.pad is "),
        (f"{table} ADD seen TIMESTAMP", f"{table} DROP COLUMN seen", "sbtest1 has the column seen besides"),
        (f"{table} DROP COLUMN pad", f"{table} ADD pad CHAR(60) NOT NULL DEFAULT ''", "sbtest1 has no column pad"),
        (f"{table} ADD CONSTRAINT x CHECK (k > 0)", f"{table} DROP CONSTRAINT x",
         r"sbtest1 has CHECK constraints \(1\)"),
        (f"{table} ALTER INDEX k_1 IGNORED", f"{table} ALTER INDEX k_1 NOT IGNORED",
         "the index k_1 of sbtest1 is not used by the optimizer"),
        (f"{table} COLLATE latin1_bin", f"{table} COLLATE latin1_swedish_ci", "the collation of sbtest1 is latin1_bin"),
        ("CREATE TRIGGER sbtest.x BEFORE UPDATE ON sbtest.sbtest1 FOR EACH ROW DO 0", "DROP TRIGGER sbtest.x",
         r"sbtest1 has triggers \(1\)"),
        ("CREATE TABLE sbtest.y (id INT, FOREIGN KEY (id) REFERENCES sbtest.sbtest1 (id))", "DROP TABLE sbtest.y",
         r"sbtest1 has foreign keys \(1\)"),
        ("RENAME TABLE sbtest.sbtest1 TO sbtest.z", "DO 0", "sbtest lacks sbtest1"),
        ("CREATE VIEW sbtest.sbtest1 AS SELECT * FROM sbtest.z", "DO 0", "sbtest1.* is a view, not a table"),
    ):  # fmt: skip
        external.sql(change)
        with pytest.raises((HostError, UserError), match=words):
            external.said(SMALL, allow_writes=False)
        external.sql(back)
    external.sql("DROP VIEW sbtest.sbtest1", "RENAME TABLE sbtest.z TO sbtest.sbtest1")
    assert "data in sbtest" not in external.said(SMALL, allow_writes=False)


def test_a_server_that_is_read_only_is_not_written_to(external: External) -> None:
    external.sql("GRANT ALL ON *.* TO bench", "SET GLOBAL read_only = 1")
    with pytest.raises(UserError, match="read_only = ON: what is written here makes it differ from its source"):
        external.said(SMALL)
    assert external.sql("SHOW TABLES FROM sbtest") == []
    external.sql("SET GLOBAL read_only = 0")
    external.said(SMALL)
    external.sql("SET GLOBAL read_only = 1")
    external.said(SMALL)
    with pytest.raises(UserError, match="read_only = ON"):
        external.said(SMALL, workload="oltp_update_index")


def test_an_interrupted_preparation_and_one_of_more_tables_are_completed(
    external: External, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Dynoload.prepare
    external.sql("SET GLOBAL innodb_force_primary_key = ON")

    async def interrupted(self: Dynoload, *arguments: object, **options: bool) -> None:
        await real(self, *arguments, **options)  # type: ignore[arg-type]
        external.sql("DELETE FROM sbtest.sbtest1", "DROP INDEX k_1 ON sbtest.sbtest1")
        raise DriverError("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr(Dynoload, "prepare", interrupted)
        with pytest.raises(DriverError):
            external.said(SMALL)
    with pytest.raises(UserError, match="the preparation of sbtest was interrupted"):
        external.said(SMALL, allow_writes=False)
    assert "completing data in sbtest" in external.said(SMALL)
    assert external.sql("SELECT COUNT(*) FROM sbtest.sbtest1") == [(1000,)]
    assert "data in sbtest" not in external.said(SMALL, allow_writes=False)

    with pytest.raises(UserError, match="sbtest lacks sbtest2"):
        external.said("tables = 2, rows = 1000", allow_writes=False)
    assert "completing data in sbtest" in external.said("tables = 2, rows = 1000")
    assert "data in sbtest" not in external.said("tables = 2, rows = 1000", allow_writes=False)

    external.sql("UPDATE sbtest.sbtest1 SET c = REVERSE(c) WHERE id = 1")
    with pytest.raises(HostError, match="a workload has changed them") as error:
        external.said("tables = 3, rows = 1000")
    assert "mydyno_made" in error.value.hint
