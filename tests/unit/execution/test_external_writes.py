"""What a load would write to an external server: by a program that prints what dynoload would."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from mydyno.errors import HostError, UserError
from mydyno.execution.environments.external_environment import check_room, check_writable
from mydyno.execution.external_writes import load_writes
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import vocabulary
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment

TEXT = """
name = "x"
question = "Which is faster?"
[arms]
control = "old"
old.dsn = "mysql://bench@db1/shop"
new.dsn = "mysql://bench@db2/shop_copy"
[[steps]]
"""


def experiment(step: str) -> Experiment:
    return parse_experiment(TomlSource.parse("x.toml", TEXT + step), vocabulary())


def paths(folder: Path, *writing: dict[str, Any]) -> HostPaths:
    """With a dynoload that finds these statements, and lists its arguments."""
    program = folder / "dynoload"
    found = json.dumps({"statements": 9, "writing": writing})
    program.write_text(f"#!/bin/sh\necho \"$@\" >> {folder}/arguments\necho '{found}'\n")
    program.chmod(0o755)
    return HostPaths(folder / "cache", folder / "data", folder, None)


def writing(statement: str, *tables: str, elsewhere: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"statement": statement, "count": 1, "tables": tables, "elsewhere": elsewhere}


def test_data_are_those_of_the_schema_where_all_steps_are_files() -> None:
    assert experiment('sql = "own.sql"').data.workload == "existing"
    assert experiment('workload = "oltp_read_only"').data.workload == "oltp"
    assert experiment('sql = "a.sql"\n[[steps]]\nworkload = "oltp_read_only"').data.workload == "oltp"


def test_a_file_is_read_once_for_each_schema_and_its_statements_are_named(tmp_path: Path) -> None:
    many = [writing(f"UPDATE t{number} SET a = ?", f"t{number}") for number in range(7)]
    (one,) = load_writes(experiment('sql = "own.sql"\nconnections = [1, 2]'), paths(tmp_path, *many))
    assert one.words.startswith(
        "load level own-1 writes to or locks t0, t1, t2, t3, t4, t5 and t6 (UPDATE t0 SET a = ?; "
    )
    assert one.words.endswith("UPDATE t4 SET a = ?; and 2 more)")
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert ["--database=shop " in line for line in arguments] == [True, False]
    assert ["--database=shop_copy " in line for line in arguments] == [False, True]


def test_what_only_reads_writes_nothing(tmp_path: Path) -> None:
    assert load_writes(experiment('sql = "own.sql"'), paths(tmp_path)) == ()
    assert load_writes(experiment('workload = "oltp_read_only"'), paths(tmp_path)) == ()
    (one,) = load_writes(experiment('workload = "oltp_read_write"\nconnections = 1'), paths(tmp_path))
    assert one.words == "load level oltp_read_write-1 writes to or locks sbtest1 to sbtest8"


def test_a_statement_that_writes_into_another_schema_is_refused(tmp_path: Path) -> None:
    found = paths(tmp_path, writing("DELETE FROM live.t", "live.t", elsewhere=("live",)))
    with pytest.raises(UserError, match=r"outside of the schema shop of the DSN: DELETE FROM live\.t"):
        load_writes(experiment('replay = "monday.capture"'), found)


class Answering:
    """A control connection to a server that answers from here."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    async def scalar(self, question: str) -> Any:
        return (await self.rows(question))[0][0]

    async def rows(self, question: str) -> list[tuple[Any, ...]]:
        return next(rows for name, rows in self.answers.items() if name in question.replace(" ", "_"))

    async def status(self) -> dict[str, str]:
        return {"Threads_connected": "3"}


@pytest.mark.parametrize(
    ("grant", "refused"),
    [
        ("GRANT SELECT, INSERT ON *.* TO `bench`@`%`", False),
        ("GRANT ALL PRIVILEGES ON `SUPER`.* TO `bench`@`%`", False),
        ("GRANT SELECT, SUPER ON *.* TO `bench`@`%`", True),
        ("GRANT ALL PRIVILEGES ON *.* TO `bench`@`%` WITH GRANT OPTION", True),
        ("GRANT BACKUP_ADMIN,CONNECTION_ADMIN ON *.* TO `bench`@`%`", True),
        ("GRANT READ ONLY ADMIN ON *.* TO `bench`@`%`", True),
    ],
)
async def test_a_script_runs_where_the_server_itself_refuses_the_account_to_write(
    grant: str, refused: bool, tmp_path: Path
) -> None:
    control: Any = Answering(read_only=[("1",)], SHOW_GRANTS=[(grant,)])
    script = load_writes(experiment('script = "own.lua"'), paths(tmp_path))
    with pytest.raises(UserError, match="read_only = ON") if refused else nullcontext():
        await check_writable(control, script, prepares=False)
    with pytest.raises(UserError, match="read_only = ON"):
        await check_writable(control, script, prepares=True)
    inserts = load_writes(experiment('workload = "oltp_insert"'), paths(tmp_path))
    with pytest.raises(UserError, match="hint: use a load that only reads, or the DSN of the source"):
        await check_writable(control, inserts, prepares=False)


@pytest.mark.parametrize(
    ("version", "grant", "limits", "permitted"),
    [
        ("8.0.31", "GRANT ALL PRIVILEGES ON *.* TO `bench`@`%`", (8, 8), False),
        ("8.0.31", "GRANT ALL PRIVILEGES ON *.* TO `bench`@`%`", (9, 9), True),
        ("10.11.2-MariaDB", "GRANT ALL PRIVILEGES ON *.* TO `bench`@`%`", (8, 8), True),
        ("10.11.2-MariaDB", "GRANT SELECT ON `SUPERSHOP`.* TO `bench`@`%`", (8, 8), False),
        ("10.11.2-MariaDB", "GRANT SUPER ON *.* TO `bench`@`%`", (8, 99), False),
    ],
)
async def test_the_servers_own_limit_of_an_accounts_connections_spares_privileged_ones_of_mariadb(
    version: str, grant: str, limits: tuple[int, int], permitted: bool
) -> None:
    control: Any = Answering(
        max_user_connections=[limits], max_connections=[(100,)], PROCESSLIST=[(1, "bench"), (2, "root")],
        SHOW_GRANTS=[(grant,)], VERSION=[(version,)],
    )  # fmt: skip
    two = experiment('workload = "oltp_read_only"\nconnections = 2\n')
    with nullcontext() if permitted else pytest.raises(HostError, match="of the account permits 8"):
        await check_room(control, "bench", two, 1, 1)
