"""Own SQL, captures and data on a server that runs already: tables as they are, nothing written unless permitted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mydyno.servers.build import ServerBuild
from mydyno.servers.dsn import PASSWORD_VARIABLE
from mydyno.store.study_folder import StudyFolder
from tests.support.interleaved import slices_of, summary_of
from tests.support.other_server import OtherServer, other_server, study_text
from tests.support.real import Program

PASSWORD = "not a secret"
READS = "SELECT stock FROM item WHERE id = {uniform(1, 100)};\n"
WRITES = READS + "UPDATE item SET stock = stock + 1 WHERE id = {uniform(1, 100)};\n"
DUMP = "CREATE TABLE item (id INT PRIMARY KEY, stock INT);\nINSERT INTO item VALUES (1, 7), (2, 7), (100, 7);\n"
ITEMS = [
    "CREATE TABLE {schema}.item (id INT PRIMARY KEY, stock INT NOT NULL) ENGINE = InnoDB",
    "INSERT INTO {schema}.item SELECT seq, 7 FROM {schema}.numbers",
    "DROP TABLE {schema}.numbers",
]
NUMBERS = "CREATE TABLE {schema}.numbers AS WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n " + (
    "WHERE seq < 100) SELECT seq FROM n"
)
STAY = "all connections are closed, and no arm's variables are in force; the schema shop stays"


@dataclass
class Shop:
    """A server with a schema of its users', and the program."""

    server: OtherServer
    program: Program

    def file(self, name: str, text: str) -> str:
        (self.program.folder / name).write_text(text)
        return name

    def dsn(self, schema: str = "shop") -> str:
        return f"mysql://bench@localhost/{schema}?socket={self.server.socket}"

    def experiment(self, step: str, *, data: str = "", variables: bool = False, schema: str = "shop") -> str:
        """Two arms: of variables, or each with a DSN."""
        dsn, step = self.dsn(schema), f'{step}\nconnections = 2\nmeasure = "1s"'
        if variables:
            arms = 'control = "old"\nold = {}\nnew = { variables = { long_query_time = 0 } }'
            return self.program.write(study_text(arms, step, dsn=dsn, top=data))
        arms = f'control = "old"\nold.dsn = "{dsn}"\nnew.dsn = "{dsn}"'
        return self.program.write(study_text(arms, step, top=data))

    @property
    def stock(self) -> int:
        ((found,),) = self.server.sql("SELECT SUM(stock) FROM shop.item")
        return int(str(found))

    @property
    def tables(self) -> list[tuple[object, ...]]:
        return self.server.sql("SHOW TABLES FROM shop")


@pytest.fixture(scope="module")
def server(build: ServerBuild) -> Iterator[OtherServer]:
    with other_server(build, f"IDENTIFIED BY '{PASSWORD}'") as made:
        for schema in ("shop", "empty"):
            made.sql(f"CREATE DATABASE {schema}", f"GRANT ALL ON {schema}.* TO bench")
        made.sql(NUMBERS.format(schema="shop"), *(one.format(schema="shop") for one in ITEMS))
        made.sql("GRANT SUPER ON *.* TO bench")
        yield made


@pytest.fixture
def shop(program: Program, server: OtherServer) -> Shop:
    return Shop(server, replace(program, environment={PASSWORD_VARIABLE: PASSWORD}))


def capture(shop: Shop, *statements: str) -> str:
    """A capture of one session, a statement each millisecond."""
    header = {
        "record": "header", "format": "dynoload-capture", "format_version": 1, "source": "general_log",
        "resolution_us": 1, "spread": False, "anonymised": False, "duration_us": 1000 * len(statements), "sessions": 1,
        "peak_sessions": 1, "events": len(statements), "statements": len(statements),
        "writing": sum(not one.startswith("SELECT") for one in statements),
    }  # fmt: skip
    lines = [
        {"record": "statement", "at_us": 1000 * number, "session": 1, "schema": "live", "text": text}
        for number, text in enumerate(statements)
    ]
    return shop.file("monday.capture", "\n".join(map(json.dumps, (header, *lines))) + "\n")


def test_a_file_that_reads_needs_no_permission_and_leaves_the_tables_as_they_are(shop: Shop) -> None:
    file = shop.experiment(f'sql = "{shop.file("reads.sql", READS)}"')
    planned = shop.program.run("plan", file)
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert "existing: the tables of the schema as they are\n" in planned.stdout
    assert "the connections of all arms at the same time, one arm loaded at a time" in planned.stdout
    assert "--allow-writes" not in planned.stdout
    done = shop.program.run("run", file)
    assert done.returncode == 0, done.stderr
    assert done.stderr.rstrip().endswith(STAY)
    assert shop.tables == [("item",)]
    study = shop.program.study()
    assert len(slices_of(study)) == 2 * 3 * 3
    assert "the tables of the schema as they are (1 table, about" in summary_of(study)["scope"]
    for run in StudyFolder(study).runs():
        assert run.valid, run.reasons
        assert run.steps[0].server_counters["Com_select"] > 100


def test_what_a_file_writes_is_named_needs_permission_and_stays(shop: Shop) -> None:
    file = shop.experiment(f'sql = "{shop.file("writes.sql", WRITES)}"', variables=True)
    words = "load level writes-2 writes to or locks item (UPDATE item SET stock = stock + ? WHERE id = ?)"
    planned = shop.program.run("plan", file)
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert f"{words}; needs --allow-writes" in planned.stdout
    assert "long_query_time from 10.0 to 0 (new)" in planned.stdout
    before = shop.stock
    refused = shop.program.run("run", file, "--allow-changes")
    assert refused.returncode == 2
    assert f"server.dsn: {words}, and an external server is not written to without permission" in refused.stderr
    assert shop.stock == before
    done = shop.program.run("run", file, "--allow-changes", "--allow-writes")
    assert done.returncode == 0, done.stderr
    assert done.stderr.rstrip().endswith(f"{STAY}, with what the load changed in item")
    assert shop.stock > before
    assert summary_of(shop.program.study())["design"] == "switchback"


def test_a_capture_is_played_without_what_it_writes(shop: Shop) -> None:
    name = capture(shop, "SELECT stock FROM item WHERE id = 1", "DELETE FROM live.item WHERE id = 2")
    refused = shop.program.run("run", shop.experiment(f'replay = "{name}"'), "--allow-writes")
    assert refused.returncode == 2, refused.stderr
    assert "a statement writes outside of the schema shop of the DSN: DELETE FROM live.item WHERE id = ?" in (
        refused.stderr
    )
    file = shop.experiment(f'replay = "{name}"\noptions.read_only = true', variables=True)
    done = shop.program.run("run", file, "--allow-changes")
    assert done.returncode == 0, done.stderr
    assert done.stderr.rstrip().endswith(STAY)
    assert "without the statements that write" in summary_of(shop.program.study())["scope"]


def test_statements_are_compared_without_what_writes_and_as_often_on_every_server(
    shop: Shop, build: ServerBuild
) -> None:
    stock = shop.stock
    name = capture(
        shop, "SELECT stock FROM item WHERE id = 1", "SELECT 1 / 0", "DELETE FROM item", "SELECT ROW_COUNT()"
    )
    with other_server(build, f"IDENTIFIED BY '{PASSWORD}'", "--sql-mode=") as new:
        new.sql("CREATE DATABASE shop", "GRANT ALL ON shop.* TO bench", "CREATE TABLE shop.item (id INT, stock BIGINT)")
        new.sql("INSERT INTO shop.item VALUES (1, 7)")
        dsn = f"mysql://bench@localhost/shop?socket={new.socket}"
        text = study_text(f'control = "old"\nold.dsn = "{shop.dsn()}"\nnew.dsn = "{dsn}"',
                          f'replay = "{name}"\nstatements = true\nmeasure = "2s"', top="")  # fmt: skip
        selects = "SHOW GLOBAL STATUS LIKE 'Com_select'"
        before = [int(str(one.sql(selects)[0][1])) for one in (shop.server, new)]
        done = shop.program.run("run", shop.program.write(text))
        assert done.returncode == 0, done.stderr
        grown = [int(str(one.sql(selects)[0][1])) - was for one, was in zip((shop.server, new), before, strict=True)]
    assert shop.stock == stock
    record = summary_of(shop.program.study())["statements"]
    assert set(record["left_out"]) == {"does not only read", "depends on the statement before"}
    found = {one["text"]: one for one in record["arms"][0]["statements"]}
    assert found["SELECT stock FROM item WHERE id = ?"]["notes"] == ["column stock is LONGLONG, not LONG"]
    assert set(found) == {"SELECT stock FROM item WHERE id = ?", "SELECT ? / ?"}
    assert abs(grown[0] - grown[1]) < 0.1 * grown[1], "the arm has a second connection, as the control has"


def test_a_script_may_write_anything(shop: Shop) -> None:
    name = shop.file("own.lua", "function event() sysbench.sql.driver():connect():query('SELECT 1') end\n")
    refused = shop.program.run("run", shop.experiment(f'script = "{name}"'))
    assert refused.returncode == 2
    assert (
        "writes to or locks any table (a script: its statements are known only when it is executed)" in refused.stderr
    )


def test_a_dump_is_loaded_into_an_empty_schema_once(shop: Shop) -> None:
    data = f'data.sql = "{shop.file("shop.sql", DUMP)}"'
    step = f'sql = "{shop.file("reads.sql", READS)}"'
    file = shop.experiment(step, data=data, schema="empty")
    planned = shop.program.run("plan", file)
    assert "where the schema empty is empty, the data of shop.sql are loaded into it; needs" in planned.stdout
    refused = shop.program.run("run", file)
    assert "empty is empty, and the data of shop.sql are not loaded without permission" in refused.stderr
    done = shop.program.run("run", file, "--allow-writes")
    assert done.returncode == 0, done.stderr
    assert shop.server.sql("SELECT COUNT(*) FROM empty.item") == [(3,)]
    again = shop.program.run("run", file)
    assert again.returncode == 0, again.stderr
    writing = shop.experiment(f'sql = "{shop.file("writes.sql", WRITES)}"', data=data, schema="empty")
    refused = shop.program.run("run", writing)
    assert refused.returncode == 2, refused.stderr
    assert "load level writes-2 writes to or locks item" in refused.stderr
    file = shop.experiment(step, data=data, schema="empty")
    shop.file("shop.sql", DUMP.replace("100", "99"))
    other = shop.program.run("run", file, "--allow-writes")
    assert "the tables in empty were not made from shop.sql as it is now" in other.stderr
    foreign = shop.program.run("run", shop.experiment(step, data=data), "--allow-writes")
    assert foreign.returncode == 2, foreign.stderr
    assert "schema shop contains 1 table that mydyno did not create" in foreign.stderr
    assert shop.tables == [("item",)]


def test_tables_that_are_there_need_a_server_that_runs(shop: Shop) -> None:
    text = Path(shop.experiment(f'sql = "{shop.file("reads.sql", READS)}"')).read_text()
    text = text.replace(f'dsn = "{shop.dsn()}"', 'compression = "off"')
    done = shop.program.run(
        "plan", shop.program.write(f'server.name = "mariadb-10.11"\ndata.workload = "existing"{text}')
    )
    assert done.returncode == 2
    assert "mydyno's own servers have no tables" in done.stderr
