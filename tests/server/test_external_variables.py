"""Variables of a server that others use: set for slices, and set back however the study ends."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import pymysql
import pytest

from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ServerSpec
from mydyno.servers.build import ServerBuild
from mydyno.servers.catalogue import get_build
from mydyno.servers.dsn import PASSWORD_VARIABLE
from mydyno.servers.external_variables import LOCK
from mydyno.store.study_folder import StudyFolder
from tests.support.breaking_proxy import BreakingProxy
from tests.support.interleaved import slices_of, summary_of
from tests.support.other_server import READ_ONLY, OtherServer, other_mysql, other_server, study_text
from tests.support.real import Program, end, interrupt

PASSWORD = "not a secret"
VARIABLES = "long_query_time = 0, sync_binlog = 7"
READ = "SELECT @@GLOBAL.long_query_time, @@GLOBAL.sync_binlog"


@dataclass
class External:
    """A server with data, and the program."""

    server: OtherServer
    program: Program

    def write(self, variables: str = VARIABLES) -> str:
        return self.program.write(self.text(f'control = "now"\nnow = {{}}\nlogged.variables = {{ {variables} }}'))

    def text(self, arms: str, step: str = READ_ONLY) -> str:
        return study_text(arms, step, dsn=f"mysql://bench@localhost/sbtest?socket={self.server.socket}")

    @property
    def variables(self) -> tuple[object, ...]:
        """As the server has them now."""
        return self.server.sql(READ)[0]


@pytest.fixture(scope="module")
def server(build: ServerBuild) -> Iterator[OtherServer]:
    with other_server(build, f"IDENTIFIED BY '{PASSWORD}'") as made:
        made.sql("GRANT SUPER ON *.* TO bench")
        yield made


@pytest.fixture
def external(program: Program, server: OtherServer) -> Iterator[External]:
    server.sql("GRANT SUPER ON *.* TO bench", "SET GLOBAL long_query_time = 20, GLOBAL sync_binlog = 3")
    made = External(server, replace(program, environment={PASSWORD_VARIABLE: PASSWORD}))
    yield made
    assert made.variables == (20.0, 3), "whatever happened"


def test_each_arm_is_measured_under_its_own_values_and_they_are_set_back(external: External) -> None:
    file, program = external.write(), external.program
    planned = program.run("plan", file)
    assert planned.returncode == 0, planned.stderr
    assert f"on {external.server.socket} (10.11" in planned.stdout
    assert "long_query_time from 20.0 to 0 (logged); sync_binlog from 3 to 7 (logged)" in planned.stdout
    refused = program.run("run", file, "--allow-writes")
    assert refused.returncode == 2
    assert "needs permission (--allow-changes)" in refused.stderr
    before = program.leftovers()
    done = program.run("run", file, "--allow-writes", "--allow-changes")
    assert done.returncode == 0, done.stderr
    assert program.leftovers() == before
    assert "all connections are closed, and no arm's variables are in force; the schema sbtest stays" in done.stderr
    study = program.study()
    summary = summary_of(study)
    assert summary["design"] == "switchback"
    assert len(slices_of(study)) == 2 * 3 * 3
    for run in StudyFolder(study).runs():
        assert run.valid, run.reasons
        slow = run.steps[0].server_counters["Slow_queries"]
        assert (slow > 100) == (run.arm == "logged"), "its sessions have its own long_query_time, no others"


def test_after_kill_9_clean_sets_them_back_and_until_then_no_study_begins(external: External) -> None:
    file, program = external.write(), external.program
    with program.stopped_at("slice", "run", file, "--allow-writes", "--allow-changes") as process:
        external.server.sql("SET GLOBAL sync_binlog = 7, GLOBAL long_query_time = 0")  # as in a slice of "logged"
        assert end(process, signal.SIGKILL) == -signal.SIGKILL
    program.environment[PASSWORD_VARIABLE] = "another"
    left = program.run("clean")
    assert left.returncode == 1
    assert "long_query_time = 20.0, sync_binlog = 3" in left.stdout
    program.environment[PASSWORD_VARIABLE] = PASSWORD
    done = program.run("clean")
    assert done.returncode == 0, done.stdout
    assert external.variables == (20.0, 3)


def test_an_address_leads_to_one_server_and_to_the_same_one_at_the_end(external: External, build: ServerBuild) -> None:
    first, program = external.server, replace(external.program, prefix=[])  # in the servers' network
    with (
        other_server(build, f"IDENTIFIED BY '{PASSWORD}'", "--server-id=7") as second,
        BreakingProxy(first.port, second.port) as proxy,
    ):
        own = Path(external.write()).read_text()
        file = program.write(own.replace(f"localhost/sbtest?socket={first.socket}", f"127.0.0.1:{proxy.port}/sbtest"))
        arguments = ("run", file, "--allow-writes", "--allow-changes")
        refused = program.run(*arguments)
        assert refused.returncode == 2, refused.stderr
        assert "server.dsn leads to several servers (" in refused.stderr
        assert f":{second.port}, server_id 7" in refused.stderr
        proxy.leads_to(first.port)
        with program.stopped_at("slice", *arguments) as process:
            first.sql("SET GLOBAL sync_binlog = 7, GLOBAL long_query_time = 0")  # as in a slice of "logged"
            assert end(process, signal.SIGKILL) == -signal.SIGKILL
        proxy.leads_to(second.port)
        left = program.run("clean")
        assert left.returncode == 1
        assert f":{second.port}, server_id 7 now; execute on the former: SET GLOBAL " in left.stdout
        assert "GLOBAL long_query_time = 20.0, GLOBAL sync_binlog = 3" in left.stdout
        proxy.leads_to(first.port)
        assert program.run("clean").returncode == 0


def test_what_the_server_changes_with_a_variable_is_set_back_too(external: External) -> None:
    capacities = "SELECT @@GLOBAL.innodb_io_capacity, @@GLOBAL.innodb_io_capacity_max"
    before = external.server.sql(capacities)
    text = (
        Path(external.write("innodb_io_capacity = 9000"))
        .read_text()
        .replace("[design]", '[design]\nkind = "switchback"')
    )
    done = external.program.run("run", external.program.write(text), "--allow-writes", "--allow-changes")
    assert done.returncode == 0, done.stderr
    assert external.server.sql(capacities) == before
    (run, *_) = [run for run in StudyFolder(external.program.study()).runs() if run.arm == "logged"]
    words = [one.text for one in run.evidence if one.treatment == "switchback"]
    assert "with them the server changes innodb_io_capacity_max, which was set and read back too" in words[0]


def test_ctrl_c_sets_them_back(external: External) -> None:
    with external.program.stopped_at("slice", "run", external.write(), "--allow-writes", "--allow-changes") as process:
        assert interrupt(process) == 130
    assert external.variables == (20.0, 3)


def test_what_somebody_else_changes_meanwhile_ends_the_study_and_is_left_alone(external: External) -> None:
    with external.program.stopped_at("slice", "run", external.write(), "--allow-writes", "--allow-changes") as process:
        external.server.sql("SET GLOBAL sync_binlog = 100")
        assert end(process, signal.SIGCONT) == 3
    assert "somebody else changed variables of the server: sync_binlog is 100" in external.program.output()
    assert external.variables == (20.0, 100)
    external.server.sql("SET GLOBAL sync_binlog = 3")


def test_while_another_mydyno_changes_variables_of_the_server_none_is_set(external: External) -> None:
    server = external.server
    with closing(pymysql.connect(user="root", unix_socket=str(server.socket))) as other, other.cursor() as cursor:
        cursor.execute("SELECT GET_LOCK(%s, 0)", [LOCK])
        server.sql("SET GLOBAL log_output = 'TABLE', GLOBAL general_log = 1")
        done = external.program.run("run", external.write(), "--allow-writes", "--allow-changes")
    assert done.returncode == 3, done.stderr
    assert "another mydyno changes variables of this server" in done.stderr
    made = server.sql(
        "SET GLOBAL general_log = 0",
        "SELECT argument FROM mysql.general_log WHERE user_host LIKE 'bench%' AND argument LIKE '%GLOBAL%sync_binlog%'",
    )
    assert made == []


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ("read_only = 1", "read_only is never changed on an external server: whether and as whom it serves"),
        ("sql_mode = 'ANSI'", "sql_mode is never changed"),
        ("innodb_io_capacity = 500", "its effect may last longer than a slice"),
    ],
)
def test_what_is_not_changed_is_refused_before_anything(external: External, variables: str, words: str) -> None:
    done = external.program.run("plan", external.write(variables))
    assert done.returncode in (2, 3)
    assert words in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("variables", "words"),
    [("sync_binlog = 7, version_comment = 'x'", "read only variable"), ("sync_binlog = 7, no_such = 1", "no_such")],
)
def test_what_the_server_refuses_ends_it_before_any_change(external: External, variables: str, words: str) -> None:
    text = external.write(variables)
    Path(text).write_text(Path(text).read_text().replace("[design]", '[design]\nkind = "switchback"'))
    done = external.program.run("run", text, "--allow-writes", "--allow-changes")
    assert done.returncode == 3, done.stderr
    assert words in done.stderr


def test_an_account_without_the_privilege_is_told_which(external: External) -> None:
    external.server.sql("REVOKE SUPER ON *.* FROM bench")
    done = external.program.run("run", external.write(), "--allow-writes", "--allow-changes")
    assert done.returncode == 3, done.stderr
    assert "SUPER (MariaDB)" in done.stderr


def test_a_slice_that_its_users_would_feel_is_ended_and_the_arm_fails_after_three(external: External) -> None:
    text = external.write()
    busy = Path(text).read_text().replace("blocks = 2", "blocks = 1").replace("connections = 2", "connections = 8")
    guarded = f"{busy}[guard]\nthreads_running = 1\n"
    done = external.program.run("run", external.program.write(guarded), "--allow-writes", "--allow-changes")
    assert done.returncode in (0, 1), "some slices may have begun and ended between two looks"
    assert "the guard ended its slice 3 times in a row: Threads_running is" in done.stderr
    within = guarded.replace("threads_running = 1", 'threads_running = 100\np99 = "5s"')
    done = external.program.run("run", external.program.write(within), "--allow-writes", "--allow-changes")
    assert done.returncode == 0, done.stderr


def test_a_load_for_which_the_server_has_no_connections_is_refused(external: External) -> None:
    external.server.sql("SET GLOBAL max_connections = 151")
    text = Path(external.write()).read_text().replace("connections = 2", "connections = 60")
    done = external.program.run("run", external.program.write(text), "--allow-writes", "--allow-changes")
    assert done.returncode == 3, done.stderr
    assert "the 3 runs of a block hold 180 connections" in done.stderr
    assert "the server permits 151" in done.stderr


SEARCH = """workload = "oltp_read_only"
connections = 8
search = { of = "connections", metric = "latency_p50_us", limit = "20ms" }"""


def test_how_many_connections_a_running_server_carries(external: External) -> None:
    text = external.text('control = "now"\nnow = {}', SEARCH).replace("blocks = 2", "blocks = 1")
    done = external.program.run("run", external.program.write(text), "--allow-writes")
    assert done.returncode == 0, done.stderr
    slices = slices_of(external.program.study())
    assert len(slices) == 2 * 3
    for one in slices:
        assert one.search is not None and one.search.connections is not None
        assert 1 <= one.search.connections <= 8
        assert one.search.met == (not one.search.because)
        assert not one.disagreements, "the server counted what the load says that it did"


TWO = """control = "old"
old.dsn = "mysql://bench@localhost/sbtest?socket={old}"
new.dsn = "mysql://bench@localhost/sbtest?socket={new}\""""


def test_two_running_servers_are_arms_loaded_in_turn(external: External, build: ServerBuild) -> None:
    program = external.program
    with other_server(build, "IDENTIFIED BY 'another word'", "--innodb-adaptive-hash-index=ON") as new:
        text = study_text(TWO.format(old=external.server.socket, new=new.socket))
        refused = program.run("run", program.write(text), "--allow-writes")
        assert f"is {PASSWORD_VARIABLE}_NEW or {PASSWORD_VARIABLE} set, and right?" in refused.stderr
        program.environment[f"{PASSWORD_VARIABLE}_NEW"] = "another word"
        done = program.run("run", program.write(text), "--allow-writes")
        assert done.returncode == 0, done.stderr
        for path in program.study().rglob("*"):
            assert path.is_dir() or not any(word in path.read_bytes() for word in (b"another word", PASSWORD.encode()))
        assert new.sql("SELECT COUNT(*) FROM sbtest.sbtest1") == [(2000,)]
    summary = summary_of(program.study())
    assert summary["design"] == "interleaved"
    assert len(slices_of(program.study())) == 2 * 3 * 3
    assert f"External servers {external.server.socket} (old) and {new.socket} (new), one of each" in summary["scope"]
    assert summary["server_differences"]["innodb_adaptive_hash_index"] == {"new": "ON", "old": "OFF"}
    for run in StudyFolder(program.study()).runs():
        assert run.valid, run.reasons
        (about,) = [one for one in run.evidence if one.treatment == "dsn"]
        assert about.facts["round_trip_ms"] > 0
        selects = run.steps[0].server_counters["Com_select"]
        own = sum(
            one.queries or 0
            for one in slices_of(program.study())
            if (one.block, one.arm, one.copy_number) == (run.block, run.arm, run.copy_number)
        )
        assert selects < 3 * own, "the other lanes' statements on the same server are not counted"


def test_of_several_instances_each_is_in_one_block(external: External, build: ServerBuild) -> None:
    program = external.program
    with ExitStack() as stack:
        servers = [
            stack.enter_context(other_server(build, f"IDENTIFIED BY '{PASSWORD}'", f"--server-id={number}"))
            for number in range(11, 17)
        ]
        dsns = [f"mysql://bench@localhost/sbtest?socket={one.socket}" for one in servers]
        arms = f'control = "old"\nold.dsn = {dsns[:3]}\nnew.dsn = {{}}'
        text = study_text(arms.format(dsns[3:]))
        fewer = program.run("plan", program.write(study_text(arms.format(f"'{dsns[3]}'"))))
        assert "servers: 1, and of the control 3; allowed: as many of each arm" in fewer.stderr
        wrong = program.run("plan", program.write(text))
        assert "design.blocks is 2, and each arm has 3 instances" in wrong.stderr
        done = program.run("run", program.write(text.replace("blocks = 2\n", "")), "--allow-writes")
        assert done.returncode == 0, done.stderr
        assert all(one.sql("SELECT COUNT(*) FROM sbtest.sbtest1") == [(2000,)] for one in servers)
    found: dict[str, dict[int, int]] = {}
    for run in StudyFolder(program.study()).runs():
        assert run.valid, run.reasons
        (about,) = [one for one in run.evidence if one.treatment == "dsn"]
        found.setdefault(f"{run.arm}.{run.copy_number}", {})[run.block] = about.facts["server_id"]
    assert {lane: set(of_blocks.values()) for lane, of_blocks in found.items()} == {
        "old.1": {11, 12, 13}, "old.2": {11, 12, 13}, "new.1": {14, 15, 16},
    }  # fmt: skip
    assert all(found["old.1"][block] != found["old.2"][block] for block in (1, 2, 3)), "A and A′ are two instances"
    assert "3 of each, one in each block: intervals are over instances" in summary_of(program.study())["scope"]


@pytest.mark.exhaustive
def test_mysql_8_0_over_tls_is_as_before_afterwards_and_after_kill_9(program: Program, real_paths: HostPaths) -> None:
    build = asyncio.run(get_build(ServerSpec(name="mysql-8.0"), real_paths.cache, LocalHost("tests", None)))
    program = replace(program, prefix=[], environment={PASSWORD_VARIABLE: PASSWORD})  # in the server's network
    with other_mysql(build, f"IDENTIFIED WITH caching_sha2_password BY '{PASSWORD}' REQUIRE SSL") as server:
        server.sql("GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO bench", "SET GLOBAL sync_binlog = 3")

        def left() -> list[tuple[object, ...]]:
            return server.sql(
                "SELECT @@GLOBAL.sync_binlog, COUNT(*) FROM information_schema.processlist WHERE user = 'bench'"
            )

        dsn = f"mysql://bench@127.0.0.1:{server.port}/sbtest?ssl-mode=required"
        settings = [
            f"server.dsn={dsn}", "vary.variables.sync_binlog=[1,100]", "data.tables=1", "data.rows=2000",
            "validity.steal=99%", "validity.driver_cpu=1",
        ]  # fmt: skip
        options = [word for one in settings for word in ("--set", one)]
        options += ["--allow-writes", "--allow-changes", "--time", "1m"]
        with program.stopped_at("slice", "run", "variable", *options) as process:
            assert end(process, signal.SIGKILL) == -signal.SIGKILL
        assert left()[0][0] != 3
        cleaned = program.run("clean")
        assert cleaned.returncode == 0, cleaned.stdout
        assert left() == [(3, 0)]
        shutil.rmtree(program.studies)
        done = program.run("run", "variable", *options)
        assert done.returncode == 0, done.stderr
        assert left() == [(3, 0)]
        assert summary_of(program.study())["design"] == "switchback"
