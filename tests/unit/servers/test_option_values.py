"""What a server's own option parser makes of values, and which of them count as changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mydyno.errors import UserError
from mydyno.execution.environments.builds import check_values, check_variables, unchecked_variables
from mydyno.hosts.local import LocalHost
from mydyno.model.definition.experiment import Scalar
from mydyno.model.server_version import ServerVersion
from mydyno.servers.build import ServerBuild
from mydyno.servers.my_cnf import option_text
from mydyno.servers.option_file import changed_by_server, is_by_server, listed_values, option_values
from mydyno.servers.running.base import InstanceSettings
from mydyno.treatments.variables import UNSHOWN, Shown, VariablesTreatment
from tests.support.fake_script import experiment

TABLE = """\
  --sort-buffer-size=#
Variables (--variable-name=value)
and boolean options {FALSE|TRUE}  Value (after reading options)
--------------------------------- ----------------------------------------
concurrent-insert                 ALWAYS
log-output                        FILE,TABLE
sort-buffer-size                  1024
sql-mode

To see what values a running server is using, type
"""


def build(folder: Path, script: str) -> ServerBuild:
    """A mysqld that only prints."""
    program = folder / "mysqld"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    version = ServerVersion.parse("8.0.31")
    known = frozenset({"sort_buffer_size", "concurrent_insert", "sql_mode"})
    return replace(ServerBuild("x", program, folder, folder, folder, version), variables=known)


def test_the_table_of_values_is_read_with_empty_ones() -> None:
    assert listed_values(TABLE) == {
        "concurrent_insert": "ALWAYS", "log_output": "FILE,TABLE", "sort_buffer_size": "1024", "sql_mode": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "read", "actual", "holds"),
    [
        ("mrr=on", "index_merge=on,mrr=on", "index_merge=on,mrr=on", True),
        ("mrr=on", "index_merge=on,mrr=on", "index_merge=on,mrr=off", False),
        ("mrr=on", "index_merge=on,mrr=on", "index_merge=on,mrr=on,cset_narrowing=off", True),
        ("TABLE,FILE", "FILE,TABLE", "FILE,TABLE", True),
        ("2", "ALWAYS", "ALWAYS", True),
        ("2", "ALWAYS", "AUTO", False),
        ("ANSI", "REAL_AS_FLOAT,ANSI", "REAL_AS_FLOAT,ANSI", True),
        ("-1", "-1", "10000", True),
        ("maybe", "FALSE", "OFF", False),
        ("1", "1024", "1024", False),
    ],
)
def test_a_value_is_compared_in_the_words_of_the_servers_parser(
    wanted: str, read: str, actual: str, holds: bool
) -> None:
    assert is_by_server(wanted, read, actual) is holds


@pytest.mark.parametrize(
    ("wanted", "read", "changed"),
    [("1", "1024", True), ("-5", "1", True), ("64M", "67108864", False), ("lots", "ALWAYS", False), ("ON", "1", False)],
)
def test_a_clipped_number_and_an_ignored_truth_value_are_changes(wanted: str, read: str, changed: bool) -> None:
    assert changed_by_server(wanted, read) is changed


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("skip_log_bin", True, "skip_log_bin=ON"),
        ("skip_log_bin", False, "skip_log_bin=0"),
        ("disable_log_bin", "OFF", "disable_log_bin=0"),
        ("ansi", True, "ansi"),
        ("loose_skip_host_cache", "ON", "loose_skip_host_cache"),
        ("autocommit", False, "autocommit=OFF"),
    ],
)
def test_options_are_written_as_servers_take_them(name: str, value: Scalar, text: str) -> None:
    assert option_text(name, value) == text


@pytest.mark.parametrize(
    ("script", "variables", "words"),
    [
        (
            "echo \"2026-11-28 0 [ERROR] [MY-000058] [Server] Unknown suffix 'l' used for variable "
            "'sort-buffer-size' (value 'lots').\"; exit 1",
            {"sort_buffer_size": "lots"},
            "arms.jemalloc.variables.sort_buffer_size = lots: MySQL 8.0.31 refuses it: Unknown suffix 'l' used for",
        ),
        (
            f"cat <<'END'\n{TABLE}END",
            {"sort_buffer_size": 1, "concurrent_insert": 2},
            "arms.jemalloc.variables.sort_buffer_size = 1: MySQL 8.0.31 would make it 1024",
        ),
        ("echo broken; exit 3", {"sql_mode": "X"}, "MySQL 8.0.31 refuses it: broken"),
    ],
)
async def test_values_that_a_server_refuses_or_clips_are_named_before_it_is_started(
    tmp_path: Path, script: str, variables: dict[str, Scalar], words: str
) -> None:
    asked = experiment(treatments={"jemalloc": {"variables": variables}})
    made, host = build(tmp_path, script), LocalHost("values", None)
    assert (await option_values(made, host, {})).errors or "ALWAYS" in str(await option_values(made, host, {}))
    with pytest.raises(UserError) as error:
        await check_values({"jemalloc": made}, asked, host)
    assert words in error.value.message
    assert "\n" not in error.value.message


async def test_a_refused_option_of_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    made, host = build(tmp_path, f"cat <<'END'\n{TABLE}END"), LocalHost("values", None)
    file = tmp_path / "my.cnf"
    file.write_text("[mysqld]\n# small\nsort_buffer_size = 1\nsort_orders\n")
    of_file: dict[str, Scalar] = {"sort_buffer_size": "1", "sort_orders": True}
    asked = experiment(treatments={"jemalloc": {"variables": of_file}}, said={"jemalloc": {"option_file": str(file)}})
    with pytest.raises(UserError) as error:
        await check_values({"jemalloc": made}, asked, host)
    assert error.value.message.startswith(f"{file}:3: arms.jemalloc.variables.sort_buffer_size = 1: MySQL 8.0.31 would")
    with pytest.raises(UserError) as error:
        await check_variables({"jemalloc": made}, asked, host)
    assert error.value.message.startswith(
        f"{file}:4: arms.jemalloc.variables.sort_orders: MySQL 8.0.31 has no variable"
    )
    of_file["sort_buffer_size"] = 2  # set beside the file
    with pytest.raises(UserError, match=r"^arms\.jemalloc\.variables\.sort_buffer_size = 2"):
        await check_values({"jemalloc": made}, asked, host)
    file.write_text("[client]\noptimizer_switch = x\n[mysqld]\noptimizer_switch = mrr=on\noptimizer_switch = mmr=off\n")
    refusing = build(tmp_path, "echo \"1:00 0 [ERROR] Error while setting value to 'optimizer_switch'\"; exit 1")
    switched = experiment(
        treatments={"jemalloc": {"variables": {"optimizer_switch": "mrr=on,mmr=off"}}},
        said={"jemalloc": {"option_file": str(file)}},
    )
    with pytest.raises(UserError) as error:
        await check_values({"jemalloc": refusing}, switched, host)
    assert error.value.message.startswith(f"{file}:5: arms.jemalloc.variables.optimizer_switch = mrr=on,mmr=off")


async def test_an_option_that_its_server_does_not_have_is_named_where_it_may_be_ignored(tmp_path: Path) -> None:
    made = build(tmp_path, f"cat <<'END'\n{TABLE}END")
    asked = experiment(treatments={"jemalloc": {"variables": {"loose_sort_buffer_size": 1024, "loose_no_such": 1}}})
    named = await check_values({"jemalloc": made}, asked, LocalHost("values", None))
    assert named == ("MySQL 8.0.31 does not have no_such, and ignores loose_no_such",)


IGNORING = """\
for each; do case $each in
  --old=*|--older=*) echo "1:00 0 [Warning] '${each%%=*}' was removed. It does nothing now" | sed "s/'--/'/" ;;
  --innodb_support_xa=*) echo "1:00 0 [ERROR] mysqld: unknown variable '$each'"; exit 7 ;;
  --sort_orders=*) echo "1:00 0 [ERROR] mysqld: unknown variable '$each'"; exit 7 ;;
esac; done
"""


async def test_what_a_version_removed_is_named_as_ignored_or_refused_as_the_server_does(tmp_path: Path) -> None:
    made, host = build(tmp_path, f"{IGNORING}cat <<'END'\n{TABLE}END"), LocalHost("values", None)
    of_file: dict[str, Scalar] = {"old": 8, "sort_buffer_size": 1024, "skip_host_cache": True}
    asked = experiment(treatments={"jemalloc": {"variables": of_file}})
    made = replace(made, variables=made.variables | {"skip_host_cache"})
    await check_variables({"jemalloc": made}, asked, host)
    assert await check_values({"jemalloc": made}, asked, host) == (
        "MySQL 8.0.31 removed old, and ignores it",
        "arm jemalloc: no variable of the server shows skip_host_cache: set, but not proved",
    )
    refused = experiment(treatments={"jemalloc": {"variables": {"old": 1, "innodb_support_xa": 0, "sort_orders": 1}}})
    with pytest.raises(UserError) as error:
        await check_variables({"jemalloc": made}, refused, host)
    assert error.value.message.split("\n  ") == [
        "arms.jemalloc.variables.innodb_support_xa: MySQL 8.0.31 has no variable 'innodb_support_xa': "
        "removed in MySQL 8.0",
        "arms.jemalloc.variables.sort_orders: MySQL 8.0.31 has no variable 'sort_orders'",
    ]
    nothing = experiment(treatments={"jemalloc": {"variables": {"old": 1, "loose_older": 1}}})
    with pytest.raises(
        UserError, match=r"arms\.jemalloc\.variables: MySQL 8\.0\.31 removed old, and ignores it, MySQL"
    ):
        await check_values({"jemalloc": made}, nothing, host)


LOADING = """\
for each; do case $each in
  --plugin-dir=/*) folder=1 ;;
  --plugin_load_add=of_x) loaded=$folder ;;
  --x_size=*) [ $loaded ] || { echo "1:00 0 [ERROR] mysqld: unknown variable '$each'"; exit 7; } ;;
esac; done
"""


async def test_options_of_a_plugin_are_known_with_the_plugin(tmp_path: Path) -> None:
    made, host = build(tmp_path, f"{LOADING}cat <<'END'\n{TABLE}END"), LocalHost("values", None)
    made = replace(made, variables=made.variables | {"plugin_load_add"})
    own: dict[str, Scalar] = {"x_size": 7, "plugin_load_add": "of_x"}
    asked = experiment(treatments={"jemalloc": {"variables": own}})
    await check_variables({"jemalloc": made}, asked, host)
    private: Any = SimpleNamespace(build=made, host=host, settings=InstanceSettings())
    found = {"x_size": Shown("x_size", "7", None)}
    assert await VariablesTreatment(own)._ignored(found.keys(), found, private) == {"x_size": UNSHOWN}
    of_all = experiment(treatments={"jemalloc": {"variables": {"x_size": 7}}})
    with pytest.raises(UserError, match=r"arms\.jemalloc\.variables\.x_size: MySQL 8\.0\.31 has no variable 'x_size'"):
        await check_variables({"jemalloc": made}, of_all, host)
    server = of_all.server.model_copy(update={"variables": {"plugin_load_add": "of_x"}})
    await check_variables({"jemalloc": made}, of_all.model_copy(update={"server": server}), host)


async def test_what_a_server_lacks_is_ignored_beside_a_plugin_too(tmp_path: Path) -> None:
    script = """for each; do case $each in
  --sort_orders=*) echo "1:00 0 [ERROR] mysqld: unknown variable '$each'"; exit 7 ;;
  --loose_sort_buffer=x) echo "1:00 0 [ERROR] wrong value for variable 'sort_buffer'"; exit 7 ;;
esac; done
"""
    made, host = build(tmp_path, f"{script}cat <<'END'\n{TABLE}END"), LocalHost("values", None)
    made = replace(made, variables=made.variables | {"plugin_load_add"})
    asked = experiment()

    async def named(**variables: Scalar) -> tuple[str, ...]:
        server = asked.server.model_copy(update={"variables": {"plugin_load_add": "of_x", **variables}})
        return await check_values({"jemalloc": made}, asked.model_copy(update={"server": server}), host)

    assert await named(sort_orders=1) == ("MySQL 8.0.31 does not have sort_orders, and ignores loose_sort_orders",)
    with pytest.raises(UserError, match=r"^server\.variables\.sort_buffer = x: "):
        await named(sort_buffer="x")


async def test_what_a_build_does_not_list_of_all_servers_variables_is_named_once(tmp_path: Path) -> None:
    made, host = build(tmp_path, f"{IGNORING}cat <<'END'\n{TABLE}END"), LocalHost("values", None)
    asked = experiment()
    variables: dict[str, Scalar] = {"old": 8, "sort_buffer_size": 1024, "query_cache_size": 0}
    asked = asked.model_copy(update={"server": asked.server.model_copy(update={"variables": variables})})
    builds = dict.fromkeys((arm.name for arm in asked.arms), made)
    await check_variables(builds, asked, host)
    words = "old is omitted: this build of MySQL 8.0.31 does not list it"
    assert await check_values(builds, asked, host) == (words,), "the forecast names query_cache_size"


DEFAULTS = """
Variables
--- ---
innodb-flush-log-at-trx-commit FLUSH
log-bin (No default value)
sort-buffer-size 262144
sync-binlog 1
table-definition-cache 400

"""


async def test_an_arm_that_sets_what_its_control_has_in_effect_is_named(tmp_path: Path) -> None:
    script = "flush=1\nfor each; do [ $each = --innodb_flush_log_at_trx_commit=2 ] && flush=2; done\n"
    script += f"cat <<END{DEFAULTS}END"
    made = build(tmp_path, script.replace("FLUSH", "$flush"))
    flush: dict[str, Scalar] = {"innodb_flush_log_at_trx_commit": 1}
    asked = experiment(
        ("control", "same", "more", "other", "alone", "unknown", "sized"),
        treatments={
            "same": {"variables": flush},
            "more": {"variables": {**flush, "innodb_flush_log_at_trx_commit": 2, "sort_buffer_size": "256K"}},
            "other": {"variables": {"innodb_flush_log_at_trx_commit": 2}},
            "alone": {"variables": flush, "allocator": "jemalloc"},
            "unknown": {"variables": {"skip_log_bin": True, "log_bin": "x"}},
            "sized": {"variables": {"table_definition_cache": 400}},
        },
    )
    named = await check_values(dict.fromkeys((arm.name for arm in asked.arms), made), asked, LocalHost("values", None))
    assert named == (
        "arm same equals the control control, which has innodb_flush_log_at_trx_commit = 1 in effect too",
        "arm more: the control control has sort_buffer_size = 256K in effect too",
        "arm alone: the control control has innodb_flush_log_at_trx_commit = 1 in effect too",
    )


def test_variables_of_servers_that_are_not_in_the_cache_are_named_as_unchecked(tmp_path: Path) -> None:
    old = {"server": {"basedir": "/opt/mysql.tar.gz"}}
    asked = experiment(
        ("control", "flush", "sync", "plain", "old", "old-sync"),
        treatments={
            "flush": {"variables": {"innodb_flush_log_at_trx_commit": 2}},
            "sync": {"variables": {"sync_binlog": 0}},
            "old": old,
            "old-sync": {**old, "variables": {"sync_binlog": 0}},
        },
    )
    name = asked.server.name
    assert list(unchecked_variables({}, asked)) == [
        f"server variables of arms flush, sync are not checked yet, because {name} is not in the cache: run gets it "
        f"and checks them before it starts a server; to check them now: mydyno servers install {name}, then plan again",
        "server variables of arm old-sync are not checked yet, because /opt/mysql.tar.gz is not in the cache: run gets "
        "it and checks them before it starts a server",
    ]
    made = build(tmp_path, "")
    assert not list(unchecked_variables(dict.fromkeys((arm.name for arm in asked.arms), made), asked))
    with_base = asked.model_copy(update={"server": asked.server.model_copy(update={"variables": {"sync_binlog": 0}})})
    (words, of_old) = unchecked_variables({}, with_base)
    assert words.startswith("server variables of arms control, flush, sync, plain are")
    assert of_old.startswith("server variables of arms old, old-sync are")
