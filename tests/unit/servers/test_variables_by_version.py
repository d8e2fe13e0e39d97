# mypy: disable-error-code="arg-type"
from __future__ import annotations

from mydyno.model.server_version import ServerVersion
from mydyno.servers.build import listed_variables
from mydyno.servers.my_cnf import adapt_variables

MYSQL_55, MYSQL_56, MYSQL_97, CALENDAR = (ServerVersion.parse(text) for text in ("5.5.9", "5.6.14", "9.7.4", "26.7.0"))
MARIADB = ServerVersion.parse("10.11.19-MariaDB")


def test_the_redo_log_is_as_large_on_every_version() -> None:
    said = {"innodb_log_file_size": "256M", "innodb_log_files_in_group": 2}
    assert adapt_variables(said, MYSQL_56).variables == said
    for version in (MYSQL_97, CALENDAR):
        assert adapt_variables(said, version).variables == {"innodb_redo_log_capacity": 512 << 20}
    assert adapt_variables(said, MARIADB).variables == {"innodb_log_file_size": 512 << 20}


def test_a_redo_capacity_becomes_files_where_there_is_none() -> None:
    said = {"innodb_redo_log_capacity": "1G"}
    assert adapt_variables(said, MYSQL_56).variables == {"innodb_log_file_size": 512 << 20}
    assert adapt_variables(said, MARIADB).variables == {"innodb_log_file_size": 1 << 30}
    assert adapt_variables(said, MYSQL_97).variables == said


def test_every_translation_and_omission_has_its_sentence() -> None:
    result = adapt_variables({"innodb_log_file_size": "64M", "query_cache_size": 0, "log_bin": False}, MYSQL_97)
    assert result.variables == {"innodb_redo_log_capacity": 128 << 20, "disable_log_bin": "ON"}
    assert len(result.notes) == 3
    assert any("query_cache_size is omitted" in note for note in result.notes)


def test_a_binary_log_that_is_on_stays_as_it_was_said() -> None:
    assert adapt_variables({"log_bin": "master-bin"}, MYSQL_97).variables == {"log_bin": "master-bin"}
    assert adapt_variables({"log_bin": False}, MYSQL_55).variables == {}


def test_what_a_build_does_not_list_is_left_out_aloud() -> None:
    known = frozenset({"innodb_buffer_pool_size", "sort_buffer_size"})
    result = adapt_variables({"innodb_buffer_pool_size": "1G", "innodb_numa_interleave": True}, MARIADB, known)
    assert result.variables == {"innodb_buffer_pool_size": "1G"}
    assert "innodb_numa_interleave" in result.notes[0]


def test_with_plugins_the_server_itself_ignores_what_no_build_lists() -> None:
    said = {"plugin_load_add": "server_audit", "server_audit_logging": "ON", "innodb_data_file_write_through": "ON"}
    known = frozenset({"plugin_load_add", "sort_buffer_size"})
    result = adapt_variables({**said, "gtid_mode": "ON"}, MARIADB, known)
    assert result.variables == {
        "plugin_load_add": "server_audit",
        "loose_server_audit_logging": "ON",
        "loose_innodb_data_file_write_through": "ON",
    }
    assert [note.partition(" ")[0] for note in result.notes] == ["gtid_mode"]


def test_prefixed_names_count_as_known_and_shortened_ones_do_not() -> None:
    known = frozenset({"log_bin", "external_locking", "sort_buffer_size"})
    said = {"skip_log_bin": "ON", "loose_external_locking": 0, "sort_buffer": "1M"}
    assert set(adapt_variables(said, MYSQL_97, known).variables) == {"skip_log_bin", "loose_external_locking"}


HELP = """\
mysqld  Ver 5.6.14 for Linux on x86_64
  -T, --exit-info[=#] Used for debugging. Use at your own risk!
  --innodb-flush-neighbors[=name]
                      Set to 0 (don't flush neighbors from buffer pool).
  --skip-stack-trace  Don't print a stack trace on failure.

Variables (--variable-name=value)
and boolean options {FALSE|TRUE}                             Value (after reading options)
------------------------------------------------------------ -------------
init-connect
innodb-flush-neighbors                                       1
wsrep-slave-FK-checks                                        TRUE
version-compile-machine                                      x86_64 of a b

To see what variables a running MySQL server is using, type
'mysqladmin variables' instead of 'mysqld --verbose --help'.
"""


def test_the_names_of_a_help_text_are_its_options_and_no_word_of_its_prose() -> None:
    names = {
        "exit_info", "innodb_flush_neighbors", "skip_stack_trace", "init_connect", "wsrep_slave_fk_checks",
        "version_compile_machine",
    }  # fmt: skip
    assert listed_variables(HELP) == names


def test_a_server_that_prints_no_table_lists_nothing() -> None:
    assert listed_variables("mysqld: Can't read dir of '/etc/my.cnf.d'\n  --help  Display this\n") == frozenset()
