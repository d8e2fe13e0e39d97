# mypy: disable-error-code="arg-type"
"""Capture and replay on a real server: both logs of one load, cut logs, equal results of equal data, missing tables."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pymysql

from mydyno.hosts.paths import HostPaths
from mydyno.servers.running.base import LOAD_USER
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.sql import Control
from tests.support.patience import HANG_S
from tests.support.real import ROOT

TABLES = [
    "DROP TABLE IF EXISTS item, sale",
    "CREATE TABLE item (id INT PRIMARY KEY, stock INT NOT NULL, note VARCHAR(100) NOT NULL) ENGINE = InnoDB",
    "INSERT INTO item VALUES (1, 10, ''), (2, 20, ''), (3, 30, '')",
    "CREATE TABLE sale (id INT PRIMARY KEY, item INT NOT NULL) ENGINE = InnoDB",
]
SESSIONS = [
    [
        "BEGIN",
        "UPDATE item SET stock = stock - 1, note = 'it''s \"this\" -- not a comment' -- a comment\n"
        "  /* of\nseveral lines */\nWHERE id = 1",
        "INSERT INTO sale VALUES (7, 1)",
        "COMMIT",
        "INSERT INTO item VALUES (1, 0, 'again')",
        "SELECT id, note FROM item WHERE note LIKE '%''s%' ORDER BY id",
    ],
    [
        "PREPARE p FROM 'SELECT COUNT(*) FROM item WHERE stock > ?'",
        "SET @limit = 15",
        "EXECUTE p USING @limit",
        "SELECT id, note FROM item ORDER BY id",
        "SELECT NOW(6)",
        "ROLLBACK",
    ],
]
EXECUTED = {"EXECUTE p USING @limit": "SELECT COUNT(*) FROM item WHERE stock > 15"}
"""What the slow log has in the place of EXECUTE."""
DUPLICATE = "1062"
PACED = "\n".join(
    json.dumps(line)
    for line in (
        {
            "record": "header", "format": "dynoload-capture", "format_version": 1, "source": "general_log",
            "resolution_us": 1, "spread": False, "anonymised": False, "duration_us": 1_000_000, "sessions": 2,
            "peak_sessions": 1, "events": 7, "statements": 6,
        },
        *(
            {"record": "statement", "at_us": at_us, "session": session, "schema": "sbtest", "text": text}
            for at_us, session, text in (
                (0, 1, "SET @seen = CONCAT(COALESCE(@seen, ''), '1')"),
                (100_000, 1, "BEGIN"),
                (100_500, 1, "UPDATE item SET note = @seen WHERE id = 3"),
                (101_000, 1, "COMMIT"),
                (500_000, 1, "SELECT @seen"),
            )
        ),
        {"record": "quit", "at_us": 600_000, "session": 1},
        {
            "record": "statement", "at_us": 700_000, "session": 2, "schema": "sbtest",
            "text": "UPDATE item SET note = COALESCE(@seen, 'of no one') WHERE id = 2",
        },
    )
)  # fmt: skip
"""Two sessions of one second, one after the other."""


def connect(instance: MysqldServer) -> pymysql.Connection:
    return pymysql.connect(
        unix_socket=str(instance.socket), user=LOAD_USER, password=instance.credentials.load, database="sbtest",
        autocommit=True,
    )  # fmt: skip


def make_tables(instance: MysqldServer) -> None:
    with connect(instance) as connection, connection.cursor() as cursor:
        for statement in TABLES:
            cursor.execute(statement)


def run_sessions(instance: MysqldServer) -> int:
    """Execute all sessions, a statement of each in turn; the number of errors."""
    connections = [connect(instance) for _ in SESSIONS]
    errors = 0
    for statements in zip(*SESSIONS, strict=True):
        for connection, statement in zip(connections, statements, strict=True):
            try:
                connection.cursor().execute(statement)
            except pymysql.MySQLError:
                errors += 1
    for connection in connections:
        connection.close()
    return errors


class Dynoload:
    """The program against one server."""

    def __init__(self, paths: HostPaths, instance: MysqldServer, folder: Path) -> None:
        self._program = paths.program("dynoload")
        self._folder = folder
        self._server = ["--socket", str(instance.socket), "--user", LOAD_USER]
        self._environment = {**os.environ, "DYNO_PASSWORD": instance.credentials.load}

    def __call__(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        server = self._server if words[0] in ("replay", "sql") else []
        return subprocess.run(
            [self._program, *words, *server], capture_output=True, text=True, timeout=HANG_S, check=False,
            cwd=self._folder, env=self._environment, input=text,
        )  # fmt: skip


async def logs(instance: MysqldServer, folder: Path) -> tuple[Path, Path]:
    """The general log and the slow log of the sessions alone."""
    general, slow = instance.folder / "data" / "general.log", instance.folder / "data" / "slow.log"
    async with Control(instance.address()) as control:
        await control.rows("SET GLOBAL log_output = 'FILE', GLOBAL long_query_time = 0")
        await control.rows("SET GLOBAL general_log_file = 'general.log', GLOBAL slow_query_log_file = 'slow.log'")
        await control.rows("SET GLOBAL general_log = ON, GLOBAL slow_query_log = ON")
        assert run_sessions(instance) == 1, "the duplicate key"
        await control.rows("SET GLOBAL general_log = OFF, GLOBAL slow_query_log = OFF")
    copies = folder / "general.log", folder / "slow.log"
    for log, copy in zip((general, slow), copies, strict=True):
        copy.write_bytes(log.read_bytes())
    return copies


def statements_of(capture: Path) -> list[str]:
    lines = [json.loads(line) for line in capture.read_text().splitlines()]
    return [line["text"] for line in lines if line["record"] == "statement"]


def check_captured_times(dynoload: Dynoload, instance: MysqldServer, folder: Path) -> None:
    """Each slice plays its part of the capture; a session keeps its variables, and another one has its own."""
    make_tables(instance)
    (folder / "paced.capture").write_text(PACED)
    words = ("sql", "run", "paced.capture", "--database", "sbtest", "--connections", "1", "--speed", "0.2", "--slices")
    # Half a second lies between each transaction and the next bound of what counts.
    done = dynoload(*words, text="go a 0 0 3000\ngo b 3000 1000 2000\nend\n")
    assert done.returncode == 0, done.stdout + done.stderr
    slices = [record for line in done.stdout.splitlines() if (record := json.loads(line))["record"] == "slice"]
    assert [one["captured"] for one in slices] == [
        {"begin_s": 0.0, "end_s": 3.0, "length_s": 5.0},
        {"begin_s": 3.0, "end_s": 6.0, "length_s": 5.0},
    ]
    texts = {one["name"]: one["text"] for one in slices[0]["digests"]}
    update = "UPDATE item SET note = @seen WHERE id = ?"
    assert texts[update] == update
    assert slices[0]["named"][update]["rows"] == {"sum": 1, "least": 1, "most": 1}
    whole = [one["whole_counts"] for one in slices]
    assert [one["transactions"] for one in whole] == [3, 3], "the last two are of the second pass"
    assert [one["counts"]["transactions"] for one in slices] == [3, 2], "after the washout"
    assert [(one["new_sessions"], one["reconnects"]) for one in whole] == [(0, 0), (2, 0)]
    with connect(instance) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT note FROM item WHERE id > 1 ORDER BY id")
        assert cursor.fetchall() == (("of no one",), ("1",))


async def test_a_log_is_captured_and_replayed_with_equal_results(
    instance: MysqldServer, real_paths: HostPaths, tmp_path: Path
) -> None:
    await instance.start()
    make_tables(instance)
    dynoload = Dynoload(real_paths, instance, tmp_path)
    general, slow = await logs(instance, tmp_path)

    for log in (general, slow):
        done = dynoload("capture", log.name, "-o", f"{log.stem}.capture")
        assert done.returncode == 0, done.stderr
        captured = statements_of(tmp_path / f"{log.stem}.capture")
        for session in SESSIONS:
            sent = [EXECUTED.get(text, text) if log == slow else text for text in session]
            assert [text for text in captured if text in sent] == sent, done.stdout

    # The first lines and the end are missing, and a line is cut in the middle.
    text = general.read_text().replace("(7, 1)", "(7\n\t\t     9 Quer", 1)
    (tmp_path / "cut.log").write_text(text[text.index("  /* of") : text.rindex("Quit") + 2])
    done = dynoload("capture", "cut.log", "-o", "cut.capture")
    assert done.returncode == 0, done.stderr
    for problem in ("lines before the first entry", "cut lines", "end within a string, a comment or a parenthesis"):
        assert problem in done.stdout, done.stdout
    assert SESSIONS[0][-1] in statements_of(tmp_path / "cut.capture")

    replay = ("replay", "general.capture", "--ignore-errors", DUPLICATE, "--quiet")
    for results in ("a", "b"):
        make_tables(instance)
        done = dynoload(*replay, "--speed", "max", "--connections", "1", "--results", results, "--json", "replay.json")
        assert done.returncode == 0, done.stdout + done.stderr
    final = json.loads((tmp_path / "replay.json").read_text().splitlines()[-1])
    assert (final["errors"], final["sent"]) == (1, final["planned"])
    compared = dynoload("compare-replays", "a", "b")
    assert compared.returncode == 0, compared.stdout
    assert "1 of " in compared.stdout and "NOW()" in compared.stdout, compared.stdout

    # Other data: the number of rows and their contents differ.
    make_tables(instance)
    with connect(instance) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE item SET stock = 99, note = 'else' WHERE id = 3")
    assert dynoload(*replay, "--speed", "max", "--connections", "1", "--results", "c").returncode == 0
    compared = dynoload("compare-replays", "a", "c")
    assert compared.returncode == 4, compared.stdout
    assert "with other contents" in compared.stdout

    # At a pace, read-only: no row changes, and lag is counted.
    make_tables(instance)
    done = dynoload(*replay, "--speed", "20", "--read-only")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "do not only read (--read-only)" in done.stdout
    assert "own lag" in done.stdout
    with connect(instance) as connection, connection.cursor() as cursor:
        assert cursor.execute("SELECT * FROM sale") == 0

    # As a load: the transactions that read, on connections that share them.
    words = ("--database", "sbtest", "--connections", "2", "--duration", "2s", "--read-only", "--quiet")
    done = dynoload("sql", "run", "general.capture", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SELECT id, note FROM item ORDER BY id" in done.stdout

    check_captured_times(dynoload, instance, tmp_path)

    with connect(instance) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE item")
    done = dynoload(*replay, "--speed", "max")
    assert done.returncode == 4, done.stdout
    assert "Table 'sbtest.item' doesn't exist" in done.stdout


TYPED = [
    "CREATE TABLE person (id INT PRIMARY KEY, born DATE, seen DATETIME(3), at TIME, state ENUM('new', 'gone'),"
    " flags SET('red', 'blue'), size TINYINT, price DECIMAL(6, 2), document TEXT,"
    " since YEAR, area GEOMETRY, name CHAR(6) CHARACTER SET utf8mb4 UNIQUE, code VARBINARY(16))",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE', @who = 'Gertrud'",
    *(
        f"INSERT INTO person VALUES ({number}, '1990-05-{number}', '2026-11-23 10:30:{number}.125', '-100:30:15',"
        " 'gone', 'red,blue', -120, -1234.50, '{\"name\": \"Gertrud\", \"n\": [1.5e3, null]}', 2026,"
        f" ST_GeomFromText('POINT(12.5 {number})'), 'Zoë{number}', UNHEX('6ccd780cbaba1026'))"
        for number in range(10, 30)
    ),
    "UPDATE person SET born = STR_TO_DATE('23.11.2026', '%d.%m.%Y'), name = LEFT(@who, 6) WHERE id = 10 LIMIT 1",
    "SELECT DATE_FORMAT(born, '%Y'), NOW(6) + INTERVAL 2 DAY, ROUND(price, 1) FROM person WHERE name LIKE 'Z_ë%'"
    " AND born BETWEEN '2026-11-01' AND DATE '2026-11-30' GROUP BY 1, 3 ORDER BY 2, 1 LIMIT 5, 10",
    """PREPARE p FROM 'SELECT * FROM person WHERE name = ''Gertrud'''""",
    "UPDATE person SET document = JSON_SET(document, '$.name', 'Gertrud') WHERE JSON_EXTRACT(document, '$.name') > ''",
    "DROP TABLE person",
]
"""Each value is one of its column's type."""


async def test_an_anonymised_capture_is_replayed_without_errors(
    instance: MysqldServer, real_paths: HostPaths, tmp_path: Path
) -> None:
    await instance.start()
    dynoload = Dynoload(real_paths, instance, tmp_path)
    lines = [f"2026-11-23T10:30:00.{number:06}Z\t  5 Query\t{text}" for number, text in enumerate(TYPED)]
    connected = "2026-11-23T10:29:59.000000Z\t  5 Connect\tgertrud@localhost on sbtest using Socket"
    (tmp_path / "general.log").write_text("\n".join([connected, *lines, ""]))
    assert dynoload("capture", "general.log", "-o", "plain.capture").returncode == 0
    assert dynoload("capture", "general.log", "--anonymise", "-o", "anonymous.capture").returncode == 0
    assert "gertrud" not in (tmp_path / "anonymous.capture").read_text().lower()
    for name in ("plain.capture", "anonymous.capture"):
        done = dynoload("replay", name, "--speed", "max", "--json", "replay.json", "--quiet")
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        final = json.loads((tmp_path / "replay.json").read_text().splitlines()[-1])
        assert (final["errors"], final["sent"]) == (0, len(TYPED))


async def test_a_log_of_latin1_sessions_is_replayed_in_their_character_set(
    instance: MysqldServer, real_paths: HostPaths, tmp_path: Path
) -> None:
    await instance.start()
    make_tables(instance)
    with connect(instance) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE item SET note = 'caf\u00e9' WHERE id = 2")
    dynoload = Dynoload(real_paths, instance, tmp_path)
    events = ("Connect\tapp@localhost on sbtest using Socket", "Query\tSELECT id FROM item WHERE note = 'caf\u00e9'")
    lines = [f"2026-11-23T10:30:0{second}.000000Z\t  5 {event}\n" for second, event in enumerate(events)]
    (tmp_path / "general.log").write_text("".join(lines), encoding="latin1")
    assert dynoload("capture", "general.log", "-o", "unknown.capture").returncode == 0
    assert dynoload("capture", "general.log", "--charset", "latin1", "-o", "latin1.capture").returncode == 0
    for words in (("replay",), ("sql", "run")):
        done = dynoload(*words, "unknown.capture")
        assert done.returncode == 2 and "--charset latin1" in done.stderr, done.stderr
    done = dynoload("replay", "latin1.capture", "--speed", "max", "--results", "results", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr
    results = [json.loads(line) for line in (tmp_path / "results").read_text().splitlines()]
    assert [one["rows"] for one in results if one.get("record") == "statement"] == [0, 1], "SET NAMES, and the row"
    # As a load: it is INVALID where no row is found.
    done = dynoload("sql", "run", "latin1.capture", "--connections", "1", "--duration", "1s", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr


def test_files_that_are_no_captures_are_refused(real_paths: HostPaths, tmp_path: Path) -> None:
    header = '{"record":"header","format":"dynoload-capture","format_version":%d,"source":"general_log",'
    header += '"resolution_us":1,"spread":false,"anonymised":false,"duration_us":0,"sessions":1,"peak_sessions":1,'
    header += '"events":2,"statements":2}\n'
    statement = '{"record":"statement","at_us":0,"session":1,"text":"SELECT 1"}\n'
    cases = {
        "is not a capture": "SELECT 1;\n",
        "has version 2 of the format": header % 2 + statement + statement,
        "is incomplete: its header names 2 events, there are 1": header % 1 + statement,
        "is damaged in line 3, or cut off there": header % 1 + statement + statement[:20],
    }
    for words, text in cases.items():
        (tmp_path / "file").write_text(text)
        program = [real_paths.program("dynoload"), "replay", str(tmp_path / "file"), "--socket", "/nonexistent"]
        done = subprocess.run(program, capture_output=True, text=True, timeout=HANG_S, check=False, cwd=ROOT)
        assert done.returncode == 2, done.stderr
        assert words in done.stderr
