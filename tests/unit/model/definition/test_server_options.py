"""Which server options belong to mydyno alone, in every spelling that a server accepts."""

from __future__ import annotations

import pytest

from mydyno.model.definition.experiment import Scalar
from mydyno.model.definition.server_options import option_name, plain_name, reserved_because
from tests.unit.experiment_file.test_experiment_mistakes import GOOD, mistakes, parse

GLIBC = 'glibc = { allocator = "glibc" }'
ARMS = f'[arms]\ncontrol = "glibc"\n{GLIBC}\n'


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("datadir", "/var/lib/mysql"),
        ("DataDir", "x"),
        ("loose-datadir", "x"),
        ("loose_skip_networking", True),
        ("skip-networking", False),
        ("skip-grant-tables", True),
        ("datad", "/var/lib/mysql"),
        ("sock", "/run/mysqld/mysqld.sock"),
        ("foo.datadir", "/etc"),
        ("foo.loose-datadir", "/etc"),
        ("maximum_port", 3306),
        ("autoset_port", 3306),
        ("innodb-data-home-dir", ""),
        ("innodb_undo_directory", "./"),
        ("log_bin", "/var/log/mysql/bin"),
        ("log-bin", "../bin"),
        ("relay-log", "relay"),
        ("log_error", "/var/log/mysql/error.log"),
        ("log_slow_query_file", "slow.log"),
        ("bind_address", "0.0.0.0"),
        ("mysqlx_port", 33060),
        ("extra_port", 3307),
        ("admin-address", "::"),
        ("user", "root"),
        ("init_file", "/etc/mysql/init.sql"),
        ("plugin_dir", "/tmp"),
        ("plugin_load_add", "/tmp/x.so"),
        ("plugin-load", "daemon_memcached=libmemcached.so"),
        ("early_plugin_load", "../x.so"),
        ("secure_file_priv", ""),
        ("ssl_key", "key.pem"),
        ("daemonize", True),
        ("innodb_data_file_path", "/dev/sdb:10Graw"),
        ("innodb_data_file_path", "ibdata1:12M;../ibdata2:12M:autoextend"),
        ("innodb_temp_data_file_path", "sub/../../ibtmp1:12M:autoextend"),
        ("debug", "d:t:o,/tmp/trace"),
        ("audit_of_tomorrow", "~/x"),
    ],
)
def test_what_places_or_opens_a_private_server_is_reserved_in_every_spelling(name: str, value: Scalar) -> None:
    assert reserved_because(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log_bin", "binlog"),
        ("log_bin", True),
        ("skip_log_bin", True),
        ("innodb_data_file_path", "ibdata1:12M:autoextend"),
        ("innodb_doublewrite", True),
        ("general_log", True),
        ("slow_query_log", "ON"),
        ("log_slow_query", "ON"),
        ("log_error_verbosity", 3),
        ("ssl", False),
        ("ssl_cipher", "AES128-SHA"),
        ("lc_messages", "en_US"),
        ("innodb", "ON"),
        ("init_connect", "SET NAMES utf8mb4"),
        ("default_time_zone", "Europe/Berlin"),
        ("innodb_ft_server_stopword_table", "shop/words"),
        ("plugin_load_add", "file_key_management"),
        ("file_key_management_filename", "/etc/mysql/keys"),
        ("skip_name_resolve", True),
        ("port_open_timeout", 1),
        ("long_query_time", 0.5),
    ],
)
def test_what_changes_how_a_server_works_is_not(name: str, value: Scalar) -> None:
    assert reserved_because(name, value) is None


def test_a_name_loses_every_prefix_that_a_server_removes() -> None:
    assert option_name("Innodb-Buffer-Pool-Size") == "innodb_buffer_pool_size"
    assert plain_name("Loose-Skip-name-resolve") == "name_resolve"
    assert plain_name("autoset_max_connections") == "max_connections"


@pytest.mark.parametrize(
    ("section", "text", "key"),
    [
        ("", "[server.variables]\ndatadir = '/var/lib/mysql'\n", "server.variables.datadir"),
        ("", "[treatments]\nvariables.port = 3306\n", "treatments.variables.port"),
        (f"{GLIBC}\nother = {{ variables = {{ user = 'root' }} }}\n", "", "arms.other.variables.user"),
        ("vary", "[vary.variables]\ntmpdir = ['/a', '/b']\n", "vary.variables.tmpdir"),
    ],
)
def test_each_place_of_a_variable_refuses_it_by_name_value_and_reason(section: str, text: str, key: str) -> None:
    base = GOOD.replace(f"{GLIBC}\n", section) if section.startswith(GLIBC) else GOOD
    base = base.replace(ARMS, "") if section == "vary" else base
    found = mistakes(base + text)
    assert f"{key} = " in found
    assert "which mydyno alone sets for a private server" in found
    assert found.count("mydyno alone sets") == 1


def test_a_set_on_the_command_line_is_refused_alike() -> None:
    found = mistakes(GOOD, None, ("server.variables.datadir=/var/lib/mysql",))
    assert '--set server.variables.datadir=/var/lib/mysql: server.variables.datadir = "/var/lib/mysql": places' in found
    assert parse(GOOD, None, ("server.variables.log_bin=binlog",)).server.variables == {"log_bin": "binlog"}
