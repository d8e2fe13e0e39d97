"""Option files as servers read them, and as server.option_file and arms.NAME.option_file take them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mydyno.errors import UserError
from mydyno.experiments import load
from mydyno.model.definition.experiment import Experiment
from mydyno.model.server_version import ServerVersion
from mydyno.servers.option_file import groups_of, options_of, read_option_file, replaced_in
from tests.support import ALL, DATA
from tests.unit.experiment_file.test_experiment_mistakes import GOOD, mistakes

FILES = DATA / "option-files"


def read(folder: Path, text: str, version: str = "8.0.31") -> dict[str, object]:
    path = folder / "my.cnf"
    path.write_text(text)
    found = options_of(read_option_file(path), groups_of(ServerVersion.parse(version)))
    return {name: option.value for name, option in found.items()}


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("sort-buffer_size=1M", "sort_buffer_size", "1M"),
        ("  x  =  1 2  ", "x", "1 2"),
        ("skip-name-resolve", "skip_name_resolve", True),
        ("skip-name-resolve # never", "skip_name_resolve", True),
        ("x = 64M # of 64G", "x", "64M"),
        ("x = 'a # b' # c", "x", "a # b"),
        ('x = "mrr=on"', "x", "mrr=on"),
        ("x = 'it''s'", "x", "it''s"),
        (r"x = a\sb\\c\d", "x", r"a b\c\d"),
        (r"x = 'a \'b\' \"c\"' # d", "x", "a 'b' \"c\""),
        (r"x = a\'b # c", "x", "a'b # c"),
        ("skip-name-resolve # was = on", "skip_name_resolve", True),
        ("x =", "x", ""),
        ("x = a;b", "x", "a;b"),
    ],
)
def test_a_line_is_read_as_the_server_reads_it(tmp_path: Path, line: str, name: str, value: object) -> None:
    assert read(tmp_path, f"# text\n; text\n\n[mysqld]\n{line}\n") == {name: value}


def test_the_last_line_of_an_option_wins_over_sections_and_spellings(tmp_path: Path) -> None:
    assert read(tmp_path, "[server]\na-b=1\n[client]\na_b=9\n[mysqld-8.0]\na_b=2\n[mysqld]\nA-B=3\n") == {"a_b": "3"}


def test_of_the_lines_that_switch_one_variable_the_last_alone_is_set(tmp_path: Path) -> None:
    text = "[mysqld]\nlog_bin = a\nx = 1\nskip-log-bin\nenable-slow_log\nloose-skip-slow-log\nlog-bin = b\n"
    assert list(read(tmp_path, text).items()) == [("x", "1"), ("loose_skip_slow_log", True), ("log_bin", "b")]


@pytest.mark.parametrize(
    ("lines", "values"),
    [
        (
            [
                "optimizer_switch = 'mrr=on,MRR_cost_based=off'",
                "optimizer-switch = bka=off, mrr=off",
            ],
            {"optimizer_switch": "mrr=off,MRR_cost_based=off,bka=off"},
        ),
        (["optimizer_switch = mrr=on", "optimizer_switch = default,bka=on"], {"optimizer_switch": "default,bka=on"}),
        (["plugin-load-add = a", "plugin_load_add = b=c.so"], {"plugin_load_add": "a;b=c.so"}),
        (
            ["plugin_load_add = a", "plugin_load = b", "plugin_load_add = c"],
            {"plugin_load": "b", "plugin_load_add": "c"},
        ),
        (["plugin_load_add = group_replication.so", "plugin_load_add = a"], {"plugin_load_add": "a"}),
        (["plugin_load_add = a", "plugin_load_add = group_replication.so"], {"plugin_load_add": "a"}),
        (
            ["replicate_wild_ignore_table = a.%", "replicate-wild-ignore-table = b.%"],
            {"replicate_wild_ignore_table": "b.%"},
        ),
        (["binlog_do_db = a", "binlog-do-db = a"], {"binlog_do_db": "a"}),
        (["sql_mode = ANSI", "sql_mode = STRICT_ALL_TABLES"], {"sql_mode": "STRICT_ALL_TABLES"}),
    ],
)
def test_lines_that_add_up_in_a_server_add_up(tmp_path: Path, lines: list[str], values: dict[str, object]) -> None:
    assert read(tmp_path, "[mysqld]\n" + "\n".join(lines)) == values


@pytest.mark.parametrize("name", ["performance_schema_instrument", "binlog_do_db", "ignore_db_dirs"])
def test_lines_that_add_up_and_have_no_value_in_common_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=rf"my\.cnf:4: {name} adds to the line .*my\.cnf:2, and a study sets one value"):
        read(tmp_path, f"[mysqld]\n{name} = a\nx = 1\n{name} = b\n")


def test_the_plugins_of_a_debian_system_are_all_loaded(tmp_path: Path) -> None:
    (tmp_path / "mariadb.conf.d").mkdir()
    names = ["provider_bzip2", "provider_lz4", "provider_lzma", "provider_lzo", "provider_snappy"]
    for name in names:
        text = f"[server]\n# Library\nplugin_load_add={name}\n# Keep it\n{name}=force_plus_permanent\n"
        (tmp_path / "mariadb.conf.d" / f"{name}.cnf").write_text(text)
    found = read(tmp_path, "[client-server]\n!includedir mariadb.conf.d/\n", "10.11.19-MariaDB")
    assert found == {"plugin_load_add": ";".join(names), **dict.fromkeys(names, "force_plus_permanent")}


def test_bytes_of_another_encoding_are_comments_or_refused(tmp_path: Path) -> None:
    (tmp_path / "my.cnf").write_bytes(b"[mysqld]\n# caf\xe9\nx = 1 # \xe9\n[client]\npassword = \xe9\n")
    options = read_option_file(tmp_path / "my.cnf")
    assert [(one.section, one.name, one.value) for one in options[:1]] == [("mysqld", "x", "1")]
    (tmp_path / "my.cnf").write_bytes(b"[mysqld]\nx = \xe9\n")
    with pytest.raises(UserError, match=r"my\.cnf:2: x = \?: the value is not in UTF-8"):
        read_option_file(tmp_path / "my.cnf")
    (tmp_path / "my.cnf").write_text("[mysqld]\nx = 1\n", encoding="utf-16")
    with pytest.raises(UserError, match=r"my\.cnf:1: .*an option before the first section"):
        read_option_file(tmp_path / "my.cnf")


def test_lines_end_and_sections_are_named_as_the_server_reads_them(tmp_path: Path) -> None:
    text = "[mysqld] # own\nx = a\u2028y = b\u0085z\n[ mysqld]\nw = 1\n[mysqld ]\nv = 1\n"
    assert read(tmp_path, text) == {"x": "a\u2028y = b\u0085z", "v": "1"}


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("8.0.31", {"mysqld", "server", "mysqld_8.0"}),
        ("5.7.22", {"mysqld", "server", "mysqld_5.7"}),
        ("10.11.19-MariaDB", {"mysqld", "server", "mariadb", "mariadbd", "mariadb_10.11", "client_server"}),
    ],
)
def test_each_version_reads_its_own_sections(tmp_path: Path, version: str, names: set[str]) -> None:
    sections = ("client", "mysql", "mysqld", "server", "mysqld-5.7", "mysqld-8.0", "mariadb", "mariadbd",
                "mariadb-10.11", "mariadb-11.4", "client-server", "mysqldump")  # fmt: skip
    assert set(read(tmp_path, "".join(f"[{one}]\n{one}=1\n" for one in sections), version)) == names


def test_included_files_are_read_where_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "b.cnf").write_text("[mysqld]\nx=3\n")
    (tmp_path / "conf.d" / "a.cnf").write_text("[mysqld]\nx=2\ny=2\n")
    (tmp_path / "conf.d" / "c.txt").write_text("[mysqld]\nx=9\n")
    (tmp_path / "one.cnf").write_text("[mysqld]\nz=1\n")
    text = "[mysqld]\nx=1\n!includedir conf.d\n!include one.cnf\nw=1\n"
    assert read(tmp_path, text) == {"x": "3", "y": "2", "z": "1", "w": "1"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x=1\n", "my.cnf:1: x=1: an option before the first section"),
        ("[mysqld]\n--x=1\n", "my.cnf:2: --x=1: not an option"),
        ("[mysqld]\nx 64M\n", "my.cnf:2: x 64M: not an option"),
        ("[server]\n= 1\n", "my.cnf:2: = 1: not an option"),
        ("[mysqld\n", "my.cnf:1: [mysqld: the name of a section has no closing bracket"),
        ("[mysqld]\n!includes x\n", "my.cnf:2: !includes x: unknown directive"),
        ("!include gone.cnf\n", "gone.cnf: cannot be read"),
        ("!includedir gone\n", "my.cnf:1: !includedir gone: no such folder"),
        ("!include my.cnf\n", "my.cnf:1: !include my.cnf: files include others at more than 10 levels"),
    ],
)
def test_what_no_server_reads_is_refused_by_file_and_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path, text)
    assert words in error.value.message


def loaded(folder: Path, arms: str, server: str = "") -> Experiment:
    for file in FILES.glob("*.cnf"):
        shutil.copy(file, folder)
    (folder / "client.cnf").write_text("[client]\nport = 3306\n[mysqld_safe]\nnice = 0\n[mysqld-8.0]\nport = 1\n")
    text = GOOD.replace('name = "mariadb-10.11"\n', f'name = "mariadb-10.11"\n{server}')
    (folder / "e.toml").write_text(text.replace("[[steps]]", f"{arms}\n[[steps]]"))
    return load(str(folder / "e.toml"))[0]


def test_the_options_of_an_arm_are_its_variables_under_those_that_it_sets_itself(tmp_path: Path) -> None:
    made = loaded(tmp_path, "mine = { option_file = 'mariadb-10.11.cnf', variables = { Max-Connections = 7 } }")
    arm = made.arm("mine")
    variables = arm.treatments["variables"]
    assert arm.option_file == str(tmp_path / "mariadb-10.11.cnf")
    assert variables["innodb_buffer_pool_size"] == "128M", "not that of [mariadb-11.4]"
    assert variables["Max-Connections"] == 7
    assert "max_connections" not in variables
    assert not {"datadir", "tmpdir", "user", "quick"} & set(variables)
    assert replaced_in(read_option_file(Path(arm.option_file or ""))) == [
        "basedir", "bind_address", "datadir", "pid_file", "tmpdir", "user",
    ]  # fmt: skip
    assert Experiment.model_validate_json(made.model_dump_json()) == made


def test_a_binary_log_elsewhere_is_kept_in_the_data_directory(tmp_path: Path) -> None:
    file = tmp_path / "log.cnf"
    file.write_text("[mysqld]\nlog-bin = /var/log/mysql/mysql-bin.log\nlog_bin_index = /var/log/mysql/bin.index\n")
    made = loaded(tmp_path, "mine = { option_file = 'log.cnf' }")
    assert made.arm("mine").treatments["variables"] == {"log_bin": "mysql-bin.log"}
    assert replaced_in(read_option_file(file)) == ["log_bin = mysql-bin.log", "log_bin_index"]


def test_the_options_of_the_server_hold_for_every_arm(tmp_path: Path) -> None:
    variables = loaded(tmp_path, "", "option_file = 'mariadb-10.11.cnf'\n").server.variables
    assert variables["innodb_io_capacity"] == "1000"


def test_the_options_of_treatments_are_every_arms_under_those_that_an_arm_sets(tmp_path: Path) -> None:
    mine = "mine = { option_file = 'own.cnf', variables = { innodb_io_capacity = 7 } }\n"
    (tmp_path / "own.cnf").write_text("[mysqld]\ninnodb_io_capacity_max = 9\n")
    made = loaded(tmp_path, f"{mine}[treatments]\noption_file = 'mariadb-10.11.cnf'\n")
    others = [arm for arm in made.arms if arm.name != "mine"]
    assert others
    for arm in others:
        assert arm.option_file == str(tmp_path / "mariadb-10.11.cnf")
        assert arm.treatments["variables"]["innodb_io_capacity"] == "1000"
    own = made.arm("mine")
    assert own.option_file == str(tmp_path / "own.cnf")
    assert own.treatments["variables"]["innodb_io_capacity"] == 7
    assert own.treatments["variables"]["innodb_io_capacity_max"] == "9"
    assert own.treatments["variables"]["innodb_buffer_pool_size"] == "128M", "what neither it nor its file sets"
    with pytest.raises(UserError, match=r"treatments\.option_file.*no such file"):
        loaded(tmp_path, "[treatments]\noption_file = 'gone.cnf'\n")
    text = GOOD.replace("[[steps]]", "[treatments]\noption_file = '/etc/passwd'\n[[steps]]")
    assert "treatments.option_file: is read by `mydyno plan`" in mistakes(text)


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ("option_file = 'gone.cnf'", 'arms.mine.option_file = "gone.cnf": no such file'),
        ("option_file = 'client.cnf'", "has no option in a section that its server reads; allowed: [client-server], "),
        ("option_file = 7", "arms.mine.option_file = 7: no such file"),
        (
            "option_file = 'mysql-8.0.cnf', server = { basedir = '/opt/mysql' }",
            "has the section [mysqld-5.7], which not every version reads",
        ),
    ],
)
def test_an_option_file_that_cannot_be_taken_is_refused(tmp_path: Path, arm: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        loaded(tmp_path, f"mine = {{ {arm} }}")
    assert words in error.value.message


def test_a_text_without_a_folder_reads_no_file() -> None:
    text = GOOD.replace("[[steps]]", "mine = { option_file = '/etc/passwd' }\n[[steps]]")
    assert "arms.mine.option_file: is read by `mydyno plan`" in mistakes(text)


PIECES = [
    "[mysqld]", "[", "]", "\n", "\r\n", "!include ", "!includedir ", "my.cnf", ".", "sort_buffer_size", "loose-",
    "skip-", "=", "'", '"', "\\", "#", ";", " ", "1M", "\x00", "\u2028", "é", "datadir", "\ufeff", "[client-server]",
]  # fmt: skip


@settings(max_examples=2000 if ALL else 60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(pieces=st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=30))
def test_any_file_is_read_or_refused_with_its_name(tmp_path: Path, pieces: list[str | bytes]) -> None:
    path = tmp_path / "my.cnf"
    path.write_bytes(b"".join(piece if isinstance(piece, bytes) else piece.encode() for piece in pieces))
    try:
        options = read_option_file(path)
    except UserError as error:
        assert "my.cnf" in str(error) or str(tmp_path) in str(error)
        return
    for option in options_of(options, groups_of(ServerVersion.parse("8.0.31"))).values():
        assert option.name and "my.cnf" in option.place
