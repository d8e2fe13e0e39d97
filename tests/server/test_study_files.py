"""A step of a script of the user's, whose server and load are on two other hosts: real sshd, server and agent."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mydyno.hosts.paths import HostPaths
from tests.support.patience import ended, wait_until
from tests.support.real import experiment_text
from tests.support.real_fleet import Fleet, fleet_or_skip
from tests.support.real_sshd import Sshd

SCRIPT = """
function prepare()
   local connection = sysbench.sql.driver():connect()
   connection:query("CREATE TABLE shop (id INT PRIMARY KEY, town VARCHAR(20))")
   connection:query("INSERT INTO shop VALUES (1, '" .. require("towns").first .. "')")
   connection:disconnect()
end
function thread_init()
   -- Only where the load runs: the coordinator has not read this module, and does not send it.
   query = require("lazily").query
   connection = sysbench.sql.driver():connect()
end
function event()
   connection:query(query)
end
function thread_done()
   connection:disconnect()
end
"""
MODULES = {
    "towns.lua": 'return { first = "Ulm" }',
    "lazily.lua": "return { query = \"SELECT id FROM shop WHERE town = 'Ulm'\" }",
}
SQL = "-- transaction: look\nSELECT id FROM shop WHERE town = {csv('towns.csv', 'town')};\n"


@pytest.fixture
def fleet(real_paths: HostPaths, parts: None, tmp_path: Path) -> Iterator[Fleet]:
    with fleet_or_skip(real_paths, tmp_path, "files of an experiment on other hosts") as made:
        yield made


def copies(host: Sshd) -> list[Path]:
    return [path for path in (host.home / ".cache/mydyno/fleet").rglob("files/*") if path.exists()]


def hide(folder: Path, host: Sshd) -> None:
    """The hosts of the test have one file system; other hosts would not have this folder."""
    entering = ["nsenter", f"--mount=/proc/{host.pid}/ns/mnt", "--"]
    subprocess.run([*entering, "mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)


def test_a_script_with_modules_and_sql_with_a_csv_file_run_on_other_hosts_and_nothing_stays(
    fleet: Fleet, tmp_path: Path
) -> None:
    program, (server, client) = fleet.program, fleet.hosts
    folder = tmp_path / "ann's load"
    folder.mkdir()
    for name, text in {"shop.lua": SCRIPT, "look.sql": SQL, "towns.csv": "town\nUlm\n", **MODULES}.items():
        (folder / name).write_text(text)
    fleet.prepare()
    for hidden, host in ((folder, server), (folder, client), (server.home, client), (client.home, server)):
        hide(hidden, host)
    steps = "".join(
        f'[[steps]]\n{kind} = "{folder}/{name}"\nconnections = 2\nwarmup = "0s"\nmeasure = "1s"\n'
        for kind, name in (("script", "shop.lua"), ("sql", "look.sql"))
    )
    arms = 'control = "one"\none = { environment = { MARK = "one" } }\n'
    text = experiment_text("files", arms, steps, blocks=1) + 'kind = "blocks"\n'
    path = program.write(text.replace("tables = 1\nrows = 2000\n", f'script = "{folder}/shop.lua"\n'))
    with program.started("run", path, "--hosts", str(fleet.groups_file())) as controller:
        assert wait_until(lambda: bool(fleet.servers(server)), 200), program.output()
        assert copies(server) and copies(client)
        assert ended(controller, "the study") == 0, program.output()
    study = fleet.study()
    assert {Path(name).name for name in study.study().files} == {"shop.lua", "look.sql", "towns.csv", *MODULES}
    for run in study.runs():
        assert run.valid, run.reasons
        for step in run.steps:
            assert [one.name for one in step.driver.clients] == [client.listen]
            assert step.driver.transactions > 0
    assert copies(server) == copies(client) == []
    assert fleet.left_on(server) == fleet.left_on(client) == []
    (folder / "towns.csv").unlink()
    done = program.run("run", path, "--hosts", str(fleet.groups_file()))
    assert done.returncode == 2
    assert "steps[1].sql: csv:" in done.stderr and "towns.csv: no such file on this host" in done.stderr
