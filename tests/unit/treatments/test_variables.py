"""When two spellings of a server variable say the same, and how my.cnf carries them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mydyno.execution.planning.forecast import forecast
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Scalar, ServerSpec, StepSpec
from mydyno.model.definition.plan import make_plan
from mydyno.model.definition.server_options import option_name
from mydyno.model.server_version import ServerVersion
from mydyno.servers.build import ServerBuild
from mydyno.servers.my_cnf import my_cnf, option_value
from mydyno.servers.option_file import same_setting
from mydyno.servers.time_zones import zone_names
from mydyno.treatments.variables import VariablesTreatment, read_back
from tests.support.fake_script import experiment

BUILD = ServerBuild(
    name="x",
    program=Path("/opt/bin/mariadbd"),
    basedir=Path("/opt"),
    messages=Path("/opt/share"),
    plugins=Path("/opt/lib/plugin"),
    version=ServerVersion.parse("10.11.19-MariaDB"),
)


@pytest.mark.parametrize(
    ("wanted", "actual"),
    [
        ("1G", "1073741824"),
        ("64m", "67108864"),
        ("utf8", "utf8mb3"),
        ("utf8_general_ci", "utf8mb3_general_ci"),
        ("ON", "1"),
        ("ON", "ON"),
        ("yes", "ON"),
        ("FALSE", "OFF"),
        ("0", "OFF"),
        ("O_DIRECT", "o_direct"),
        ("0.5", "0.500000"),
        ("60", "60.000000"),
        (" 16K ", "16384"),
    ],
)
def test_spellings_of_the_same_setting(wanted: str, actual: str) -> None:
    assert same_setting(wanted, actual)


@pytest.mark.parametrize(
    ("wanted", "actual"),
    [
        ("1G", "1073741825"),
        ("ON", "OFF"),
        ("ON", "2"),
        ("O_DIRECT", "fsync"),
        ("100M", "128M"),
        ("", "0"),
        ("abc", ""),
        ("9" * 400 + "T", "1"),
    ],
)
def test_what_a_server_rounded_or_ignored_is_not_the_same(wanted: str, actual: str) -> None:
    assert not same_setting(wanted, actual)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("sort_buffer_size", "262144"),
        ("loose_sort_buffer_size", "262144"),
        ("transaction_isolation", "READ-COMMITTED"),
        ("innodb_flush", None),
        ("loose_innodb_flush", None),
    ],
)
def test_an_option_is_read_back_by_the_name_that_the_server_shows(name: str, told: str | None) -> None:
    shown = {"sort_buffer_size": "262144", "tx_isolation": "READ-COMMITTED", "innodb_flush_method": "O_DIRECT"}
    assert read_back(name, shown) == told


def options(variables: dict[str, Scalar], port: int | None = None) -> list[str]:
    return my_cnf(BUILD, Path("/run"), Path("/s.sock"), port, variables).splitlines()


def test_names_and_values_have_one_spelling() -> None:
    assert option_name("Innodb-Buffer-Pool-Size") == "innodb_buffer_pool_size"
    assert [option_value(value) for value in (True, False, 1, 0.5, "x")] == ["ON", "OFF", "1", "0.5", "x"]


def test_variables_win_over_mydynos_defaults_but_not_over_the_places_of_the_servers_files() -> None:
    lines = options({"TMPDIR": "/elsewhere", "datadir": "/var/lib/mysql", "skip-name-resolve": False})
    assert {"tmpdir = /run/tmp", "datadir = /run/data", "skip_name_resolve = 0"} <= set(lines)
    assert len({line.split(" = ")[0] for line in lines}) == len(lines)


@pytest.mark.parametrize("where", ["server", "arms"])
def test_a_saved_study_that_places_its_servers_elsewhere_is_not_continued(paths: HostPaths, where: str) -> None:
    placed: dict[str, Scalar] = {"datadir": "/var/lib/mysql"}
    asked = experiment(treatments={"jemalloc": {"variables": placed}} if where == "arms" else {})
    if where == "server":
        asked = asked.model_copy(update={"server": ServerSpec(name="mariadb-10.11", variables=placed)})
    found = forecast(asked, make_plan(asked), paths).obstacles
    key = "server.variables" if where == "server" else "arms.jemalloc.variables"
    assert any(one.startswith(f"{key}.datadir = /var/lib/mysql: places the server's files") for one in found)


def test_a_private_server_has_no_port_or_one_on_loopback() -> None:
    assert "skip_networking = ON" in options({})
    assert {"bind_address = 127.0.0.1", "port = 3307"} <= set(options({}, 3307))
    assert "skip_networking = ON" not in options({}, 3307)


@pytest.mark.parametrize(("version", "line"), [("10.11.19-MariaDB", []), ("8.0.31", ["disable_log_bin = ON"])])
@pytest.mark.parametrize("off", [False, "OFF", 0])
def test_no_binary_log_is_never_a_log_of_the_name_off(version: str, line: list[str], off: Scalar) -> None:
    build = replace(BUILD, version=ServerVersion.parse(version))
    lines = my_cnf(build, Path("/run"), Path("/s.sock"), None, {"log-bin": off}).splitlines()
    assert [one for one in lines if "log_bin" in one] == line
    kept = my_cnf(build, Path("/run"), Path("/s.sock"), None, {"log_bin": "binlog"}).splitlines()
    assert "log_bin = binlog" in kept


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("a#b", 'x = "a#b"'),
        ("'q'", "x = \"'q'\""),
        ('say "hi"', 'x = "say \\"hi\\""'),
        ("back\\slash", 'x = "back\\\\slash"'),
        (" edge", 'x = " edge"'),
        ("plain value", "x = plain value"),
        ("two\nlines", 'x = "two\\nlines"'),
    ],
)
def test_a_value_that_an_option_file_would_cut_short_is_quoted(value: str, line: str) -> None:
    assert line in options({"x": value})


def test_every_path_of_an_option_file_is_quoted() -> None:
    folder = Path("/x/disk#1")
    text = my_cnf(replace(BUILD, basedir=folder), folder, folder / "s", None, {}, (), folder / "init.sql")
    lines = [line for line in text.splitlines() if "disk#1" in line]
    assert len(lines) == 6
    assert all(re.fullmatch(r'\w+ = "/x/disk#1[^"]*"', line) for line in lines)
    assert 'init_file = "/x/disk#1/init.sql"' in lines


@pytest.mark.parametrize("name", ["autocommit", "completion-type", "sql_mode", "SQL_SELECT_LIMIT", "sort_buffer_size"])
@pytest.mark.parametrize("script", [None, "own.lua"])
def test_what_built_in_workloads_set_themselves_cannot_be_under_test_with_them(
    paths: HostPaths, name: str, script: str | None
) -> None:
    step = StepSpec(workload="oltp_update_index") if script is None else StepSpec(workload="script", script=script)
    asked = experiment(treatments={"jemalloc": {"variables": {name: 0}}}, steps=(step,))
    found = [one for one in forecast(asked, make_plan(asked), paths).obstacles if "sets its own value" in one]
    assert bool(found) == (script is None and name != "sort_buffer_size")
    assert all(one.startswith("arm jemalloc: variables: ") and "use" in one for one in found)


@pytest.mark.parametrize(
    ("name", "value"),
    [("character-set-server", "UTF16"), ("collation_server", "utf32_bin"), ("loose_character_set_server", "ucs2")],
)
def test_a_wide_character_set_is_refused_before_data_are_made(paths: HostPaths, name: str, value: str) -> None:
    for word, refused in ((value, True), ("utf8mb4", False), ("utf8mb3_bin", False)):
        asked = experiment(treatments={"jemalloc": {"variables": {name: word}}})
        found = [one for one in forecast(asked, make_plan(asked), paths).obstacles if "ASCII has one byte" in one]
        assert len(found) == refused
        assert all(one.startswith(f"arm jemalloc: {option_name(name)} = {word}: the tables of") for one in found)


@pytest.mark.parametrize(
    "name", ["default_storage_engine", "storage-engine", "loose_default_storage_engine", "enforce_storage_engine"]
)
@pytest.mark.parametrize("value", ["MyISAM", "Aria", "innodb"])
def test_another_engine_than_that_of_the_tables_is_refused(paths: HostPaths, name: str, value: str) -> None:
    asked = experiment(treatments={"jemalloc": {"variables": {name: value}}})
    found = [one for one in forecast(asked, make_plan(asked), paths).obstacles if "has tables of InnoDB" in one]
    assert len(found) == (value != "innodb")
    assert all(one.startswith(f"arm jemalloc: {option_name(name)} = {value}: ") for one in found)


@pytest.mark.parametrize(
    ("server", "treatments", "words"),
    [
        ("mariadb-10.11", {"server": "mysql-8.0", "compression": "zstd"}, ""),
        ("mysql-8.0", {"server": "mariadb-10.11", "compression": "zstd"}, "mariadb-10.11 compresses with zlib only"),
        ("mysql-8.0.15", {"compression": "zstd"}, "mysql-8.0.15 compresses with zlib only"),
        ("mysql-5.7", {"server": "mariadb-10.11", "tls": "1.3"}, ""),
        ("mariadb-10.11", {"server": "mysql-5.7", "tls": "1.2"}, "offers TLSv1, TLSv1.1 only"),
        ("mysql-5.5", {"tls": "1.2"}, "cannot be restricted to TLS 1.2"),
        ("mysql-5.5", {"tls": "off"}, ""),
        ("mysql-8.0", {"variables": {"innodb-buffer-pool-size": "900T"}, "huge_pages": "hugetlb"}, "are needed, but"),
    ],
)
def test_a_treatment_is_judged_by_the_server_and_variables_of_its_arm(
    paths: HostPaths, server: str, treatments: dict[str, Any], words: str
) -> None:
    asked = experiment(server=ServerSpec(name=server), treatments={"jemalloc": treatments})
    start = f"arm jemalloc: {list(treatments)[-1]}: "
    found = [one for one in forecast(asked, make_plan(asked), paths).obstacles if one.startswith(start)]
    if "huge_pages" in treatments:
        found = [one for one in found if words in one]  # others need root
    assert len(found) == bool(words), found
    assert all(words in one for one in found)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "europe/berlin", "+02:00", "system", "Mars/Base"])
def test_a_time_zone_that_the_servers_tables_will_not_have_is_refused(paths: HostPaths, zone: str) -> None:
    known = zone in ("+02:00", "system") or (zone != "Mars/Base" and "Europe/Berlin" in zone_names())
    treatment = VariablesTreatment({"default-time-zone": zone})
    words = treatment.obstacle(ServerSpec(name="mariadb-10.11"))
    assert (words is None) is known
    assert words is None or words.startswith(f"default_time_zone = {zone}: no such time zone in /")
    assert treatment.obstacle(ServerSpec(dsn="mysql://bench@db/sbtest")) is None
    asked = experiment()
    asked = asked.model_copy(
        update={"server": asked.server.model_copy(update={"variables": {"default_time_zone": zone}})}
    )
    found = [one for one in forecast(asked, make_plan(asked), paths).obstacles if "time zone" in one]
    assert found == ([] if known else [f"server.variables: {words}"])
