"""Options of a MySQL or MariaDB server: the spellings of their names, and those that belong to mydyno alone.

What places a private server's files, opens it to clients or gives it to somebody is set by mydyno. An experiment that
set it would start the server on files of another one, or let others in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from mydyno.model.definition.experiment import ArmSpec, Scalar
from mydyno.model.definition.problems import Key, Problem

PREFIXES = ("loose", "skip", "disable", "enable", "maximum", "autoset")
"""What a server removes from the front of a name (my_getopt)."""
_PREFIX = re.compile(f"^(?:{'|'.join(PREFIXES)})_")


def option_name(name: str) -> str:
    """A variable's one spelling: lower case with underscores."""
    return name.lower().replace("-", "_")


def variables_of(arm: ArmSpec) -> dict[str, Scalar]:
    """The server variables that an arm sets, in their one spelling."""
    return {option_name(name): value for name, value in arm.treatments.get("variables", {}).items()}


def plain_name(name: str) -> str:
    """The variable that an option sets: its name without the prefixes that options may have."""
    plain = option_name(name)
    while _PREFIX.match(plain):
        plain = _PREFIX.sub("", plain)
    return plain


_FILES = "places the server's files"
_CLIENTS = "opens the server to clients"
_ACCESS = "sets who may use the server, or what it executes and loads"
_NAMES = {
    _FILES: """
        basedir character_sets_dir chroot data datadir language lc_messages_dir plugin_dir tmpdir
        innodb_buffer_pool_filename innodb_data_home_dir innodb_directories innodb_doublewrite_dir innodb_log_arch_dir
        innodb_log_group_home_dir innodb_redo_log_archive_dirs innodb_temp_tablespaces_dir innodb_tmpdir
        innodb_undo_directory aria_log_dir_path replica_load_tmpdir slave_load_tmpdir
        rocksdb_datadir rocksdb_wal_dir wsrep_data_home_dir tokudb_data_dir tokudb_log_dir tokudb_tmp_dir
        audit_log_file general_log_file log log_basename log_bin_basename log_bin_index log_error log_slow_queries
        log_slow_query_file log_tc server_audit_file_path slow_query_log_file
        master_info_file relay_log relay_log_basename relay_log_index relay_log_info_file
        ft_stopword_file pid_file
    """,
    _CLIENTS: """
        admin_address admin_port bind_address daemon_memcached_option extra_port feedback_url
        group_replication_local_address mysqlx mysqlx_bind_address mysqlx_port mysqlx_socket named_pipe networking port
        proxy_protocol_networks report_host report_port shared_memory socket
        keyring_migration_host keyring_migration_port keyring_migration_socket keyring_migration_user
        wsrep_cluster_address wsrep_node_address wsrep_node_incoming_address wsrep_provider wsrep_sst_receive_address
    """,
    _ACCESS: """
        bootstrap daemonize des_key_file grant_tables help init_file initialize initialize_insecure secure_file_priv
        user validate_config
        ssl_ca ssl_capath ssl_cert ssl_crl ssl_crlpath ssl_key
        admin_ssl_ca admin_ssl_capath admin_ssl_cert admin_ssl_crl admin_ssl_crlpath admin_ssl_key
        mysqlx_ssl_ca mysqlx_ssl_capath mysqlx_ssl_cert mysqlx_ssl_crl mysqlx_ssl_crlpath mysqlx_ssl_key
        caching_sha2_password_private_key_path caching_sha2_password_public_key_path
        sha256_password_private_key_path sha256_password_public_key_path
    """,
}
OWN = {reason: frozenset(names.split()) for reason, names in _NAMES.items()}
"""Why → the options, without prefixes."""
_BEGIN_LIKE_THEM = (
    "admin_ssl", "feedback", "general_log", "innodb", "innodb_doublewrite", "lc_messages", "log_bin", "log_slow_query",
    "slow_query_log", "ssl",
)  # fmt: skip
"""Options of their own whose names begin others: not short for those."""
_LOADED = ("early_plugin_load", "plugin_load", "plugin_load_add")
"""Options that load plugins."""
_LISTENING = re.compile(r"memcached|mysqlx|handlersocket|group_replication", re.IGNORECASE)
"""Plugins that listen at a port of their own."""
_KEYS = ("file_key_management_", "keyring_")
"""Options that name files with keys, which the server reads."""
_OUTSIDE = re.compile(r"(?:^|[\s:;,=])(?:[/~]|\.{1,2}/)|/\.\./")
"""A path that leads out of the data directory, alone or in a list."""


def reserved_because(name: str, value: Scalar) -> str | None:
    """Why an option of a private server belongs to mydyno alone; None if an experiment may set it.

    Servers take what stands behind a dot for the name (my_getopt's structured variables), and old ones any part that
    begins one name alone.
    """
    plain = plain_name(option_name(name).rpartition(".")[2])
    for reason, names in OWN.items():
        if plain in names or (plain not in _BEGIN_LIKE_THEM and any(one.startswith(plain) for one in names)):
            return reason
    text = str(value)
    if plain in _LOADED and ("/" in text or _LISTENING.search(text)):
        return "loads a library that is not the server's" if "/" in text else _CLIENTS
    if _OUTSIDE.search(text) and not plain.startswith(_KEYS):
        return "names a path outside of the data directory"
    return None


def inside(name: str, value: Scalar) -> Scalar:
    """The value of an option file's line as a private server can have it: its binary log is in the data directory."""
    outside = plain_name(name) == "log_bin" and _OUTSIDE.search(str(value))
    return Path(str(value)).name if outside else value


def loading_plugins(variables: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Those of the variables that load plugins, whose own options a server knows with them alone."""
    return {option_name(name): value for name, value in variables.items() if plain_name(name) in _LOADED}


def reserved_problems(key: Key, variables: object) -> list[Problem]:
    """The mistakes in a table of variables at this key: what belongs to mydyno alone."""
    found = []
    for name, value in variables.items() if isinstance(variables, Mapping) else ():
        reason = reserved_because(str(name), value)
        if reason is not None:
            found.append(Problem((*key, name), f"{reason}, which mydyno alone sets for a private server", value))
    return found
