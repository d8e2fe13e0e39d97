"""The option file of a private server, written from the experiment; nothing else configures it.

The experiment's variables are translated for each version. A variable that a version calls otherwise is translated; one
that it does not have, because there is nothing to set, is left out; both with a sentence. Only [server.variables] is
treated so: what an arm says is the question, and is never changed. A name that no version knows stays as it is, and is
refused before the start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mydyno.model.definition.experiment import Scalar
from mydyno.model.definition.quantities import format_bytes, parse_bytes
from mydyno.model.definition.server_options import loading_plugins, option_name, plain_name
from mydyno.model.server_version import NAMES, ServerVersion
from mydyno.servers.build import ServerBuild

DURABILITY = ("innodb_flush_log_at_trx_commit", "sync_binlog")
"""Variables that decide whether a commit waits for the disk."""
DEFAULT_LOG_FILES = 2
"""innodb_log_files_in_group of MySQL where nothing is said."""


def option_value(value: Scalar) -> str:
    """A value in the syntax of option files: booleans as ON and OFF."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return str(value)


NO_BINARY_LOG = ("FALSE", "OFF", "0")
"""Values of log_bin in an experiment that ask for no binary log."""
WITHOUT_ARGUMENT = ("ansi", "core_file", "skip_host_cache", "skip_new", "skip_stack_trace", "safe_mode")
"""Options that take no value: set by their name alone."""
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _line_value(value: Scalar) -> str:
    """Quoted unless it is plain: an option file ends a value at "#" and reads escapes in it (mysqld's option files)."""
    text = option_value(value)
    if re.fullmatch(r"[\w.,:;+/@%=* -]*", text, re.ASCII) and text == text.strip():
        return text
    return '"' + "".join(_ESCAPES.get(letter, letter) for letter in text) + '"'


def option_text(name: str, value: Scalar) -> str:
    """An option as an argument of the program has it, without the dashes."""
    return name if _is_alone(name) else f"{name}={option_value(_of_negation(name, value))}"


def _line(name: str, value: Scalar) -> str:
    return name if _is_alone(name) else f"{name} = {_line_value(_of_negation(name, value))}"


def _is_alone(name: str) -> bool:
    return name.removeprefix("loose_") in WITHOUT_ARGUMENT


def _of_negation(name: str, value: Scalar) -> Scalar:
    """Of skip_X and disable_X only the value 0 says that X is on; "OFF" would be one more way to switch it off."""
    is_off = option_value(value).upper() in ("OFF", "FALSE")
    return 0 if is_off and name.removeprefix("loose_").startswith(("skip_", "disable_")) else value


def my_cnf(
    build: ServerBuild,
    folder: Path,
    socket: Path,
    port: int | None,
    variables: Mapping[str, Scalar],
    notes: Sequence[str] = (),
    init_file: Path | None = None,
) -> str:
    """The text of my.cnf; notes become comments.

    The variables (the experiment's, and a treatment's path for the load) win over mydyno's defaults, but not over what
    places the server's files.
    """
    placed: dict[str, Scalar] = {
        "basedir": str(build.basedir),
        "datadir": str(folder / "data"),
        "tmpdir": str(folder / "tmp"),
        "socket": str(socket),
        "pid_file": str(folder / "tmp" / "mysqld.pid"),
        "lc_messages_dir": str(build.messages),
        "plugin_dir": str(build.plugins),
        "secure_file_priv": "",
    }
    own: dict[str, Scalar] = {**build.version.quiet_variables}
    if port is None:
        own["skip_networking"] = "ON"
    else:
        own |= {"bind_address": "127.0.0.1", "port": port}
    specified = {option_name(name): value for name, value in variables.items()}
    merged = placed | own | specified | placed
    if str(merged.get("log_bin")).upper() in NO_BINARY_LOG:
        # Its value is the name of the log's files, also "OFF".
        del merged["log_bin"]
        merged |= {"disable_log_bin": "ON"} if build.version.logs_by_default else {}
    if init_file is not None:
        merged["init_file"] = str(init_file)
    comments = "".join(f"# {note}\n" for note in notes)
    return f"{comments}[mysqld]\n" + "".join(f"{_line(name, value)}\n" for name, value in merged.items())


@dataclass
class AdaptedVariables:
    """Variables as one version takes them, and what was changed about them."""

    variables: dict[str, Scalar] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


Rule = Callable[[ServerVersion, dict[str, Scalar], list[str]], None]
"""Changes the variables in place and adds its sentences."""


def adapt_variables(
    variables: Mapping[str, Scalar], version: ServerVersion, known: frozenset[str] = frozenset()
) -> AdaptedVariables:
    """The variables (names with underscores) for this version.

    `known`: the options that the build lists, where it is at hand. What it does not list is left out too, or, where the
    variables load plugins, whose options are in no list, gets the prefix loose_: whether any server of the study knows
    the name was checked before.
    """
    loads = bool(loading_plugins(variables))
    result = AdaptedVariables(dict(variables))
    for rule in (_redo_log, _binary_log):
        rule(version, result.variables, result.notes)
    for name in list(result.variables):
        reason = _absent(name, version, known)
        if reason is None:
            continue
        value = result.variables.pop(name)
        if loads and name not in SPANS:
            result.variables[f"loose_{name}"] = value
        else:
            result.notes.append(f"{name} is omitted: {reason}")
    return result


def _redo_log(version: ServerVersion, variables: dict[str, Scalar], notes: list[str]) -> None:
    size, files = variables.get("innodb_log_file_size"), variables.get("innodb_log_files_in_group")
    capacity = variables.get("innodb_redo_log_capacity")
    if version.is_mysql_from(8, 0, 30):
        if capacity is None and size is not None:
            total = parse_bytes(size) * int(files or DEFAULT_LOG_FILES)
            variables["innodb_redo_log_capacity"] = total
            notes.append(f"innodb_redo_log_capacity = {format_bytes(total)} replaces {_log_size_text(size, files)}")
        for name in ("innodb_log_file_size", "innodb_log_files_in_group"):
            variables.pop(name, None)
        return
    if capacity is not None and size is None:
        total = parse_bytes(capacity)
        one = total if version.flavour == "mariadb" else total // DEFAULT_LOG_FILES
        variables["innodb_log_file_size"] = one
        notes.append(f"innodb_log_file_size = {format_bytes(one)} replaces innodb_redo_log_capacity = {capacity}")
    variables.pop("innodb_redo_log_capacity", None)
    if version.is_mariadb_from(10, 5) and files is not None:
        del variables["innodb_log_files_in_group"]
        if size is not None:
            total = parse_bytes(size) * int(files)
            variables["innodb_log_file_size"] = total
            notes.append(
                f"innodb_log_file_size = {format_bytes(total)}, one file, replaces {_log_size_text(size, files)}"
            )


def _log_size_text(size: Scalar, files: Scalar | None) -> str:
    count = f"innodb_log_files_in_group = {files}" if files is not None else f"MySQL's {DEFAULT_LOG_FILES} files"
    return f"innodb_log_file_size = {size} in {count}"


def _binary_log(version: ServerVersion, variables: dict[str, Scalar], notes: list[str]) -> None:
    """`log_bin = false`: MySQL >= 8.0 logs by default, and takes log_bin's value for a file name."""
    value = variables.get("log_bin")
    if value is None or str(value).upper() not in NO_BINARY_LOG:
        return
    del variables["log_bin"]
    if version.logs_by_default:
        variables["disable_log_bin"] = "ON"
        notes.append("disable_log_bin replaces log_bin = OFF")


@dataclass(frozen=True)
class Span:
    """The versions that have a variable: from (inclusive) until (exclusive, None: still there); None: never."""

    mysql: tuple[tuple[int, ...], tuple[int, ...] | None] | None
    mariadb: tuple[tuple[int, ...], tuple[int, ...] | None] | None
    without: str
    """Why omitting the variable changes nothing on servers without it."""

    def holds(self, version: ServerVersion) -> bool:
        """Whether this version has it."""
        span = self.mysql if version.flavour == "mysql" else self.mariadb
        return span is not None and version.number >= span[0] and (span[1] is None or version.number < span[1])


_ALWAYS = ((5, 5), None)
SPANS: dict[str, Span] = {
    "innodb_buffer_pool_load_at_startup": Span(((5, 6), None), ((10, 0), None), "nothing is loaded when it starts"),
    "innodb_buffer_pool_dump_at_shutdown": Span(((5, 6), None), ((10, 0), None), "nothing is dumped when it stops"),
    "innodb_buffer_pool_instances": Span(_ALWAYS, ((5, 5), (10, 6)), "its buffer pool has one instance"),
    "innodb_thread_concurrency": Span(_ALWAYS, ((5, 5), (10, 6)), "it has no limit of its own on threads in InnoDB"),
    "innodb_additional_mem_pool_size": Span(((5, 5), (5, 7)), ((5, 5), (10, 2)), "it always uses the system's malloc"),
    "innodb_use_sys_malloc": Span(((5, 5), (5, 7)), ((5, 5), (10, 2)), "it always uses the system's malloc"),
    "innodb_file_format": Span(((5, 5), (8, 0)), ((5, 5), (10, 3)), "it has one file format"),
    "innodb_large_prefix": Span(((5, 5), (8, 0)), ((5, 5), (10, 3)), "large prefixes are always allowed"),
    "innodb_support_xa": Span(((5, 5), (8, 0)), ((5, 5), (10, 3)), "it is always on"),
    "innodb_log_writer_threads": Span(((8, 0, 22), None), None, "commits write the redo log themselves"),
    "innodb_snapshot_isolation": Span(None, ((10, 6), None), "a changed row never raises error 1020"),
    "query_cache_type": Span(((5, 5), (8, 0)), _ALWAYS, "it has no query cache"),
    "query_cache_size": Span(((5, 5), (8, 0)), _ALWAYS, "it has no query cache"),
    "aria_pagecache_buffer_size": Span(None, ((5, 5), None), "it has no Aria"),
    "gtid_mode": Span(((5, 6), None), None, "it has no such mode"),
}
"""Variables that only some versions have."""


_REMOVED_BY_MYSQL = {
    (5, 7): "innodb_mirrored_log_groups thread_concurrency timed_mutexes",
    (8, 0): """
        innodb_checksums innodb_file_format_check innodb_file_format_max innodb_locks_unsafe_for_binlog
        innodb_stats_sample_pages innodb_undo_logs internal_tmp_disk_storage_engine log_warnings max_tmp_tables
        metadata_locks_cache_size metadata_locks_hash_instances multi_range_count myisam_repair_threads old_passwords
        query_cache_limit query_cache_min_res_unit query_cache_wlock_invalidate secure_auth show_compatibility_56
        sync_frm temp_pool
    """,
}
"""Release of MySQL → options that the one before it lists (mysqld --verbose --help), and no later one."""


def removed_in(name: str, version: ServerVersion) -> str | None:
    """The release that removed a variable that this version does not have: "MySQL 8.0"; None if not known."""
    if name in SPANS and version.has_sql:
        span = SPANS[name].mysql if version.flavour == "mysql" else SPANS[name].mariadb
        until = None if span is None else span[1]
    else:
        until = next((one for one, names in _REMOVED_BY_MYSQL.items() if name in names.split()), None)
        until = until if version.flavour == "mysql" else None
    if until is None or version.number < until:
        return None
    return f"{NAMES[version.flavour]} {'.'.join(map(str, until))}"


def _absent(name: str, version: ServerVersion, known: frozenset[str]) -> str | None:
    """Why this version has no such variable; None if it has, or where nothing is known of it."""
    if name in SPANS and not SPANS[name].holds(version):
        return f"{version.name} does not have it ({SPANS[name].without})"
    if known and not is_known(name, known):
        return f"this build of {version.name} does not list it"
    return None


def is_known(name: str, known: frozenset[str]) -> bool:
    """Whether a build lists the option, as it is or behind one of the prefixes that options may carry.

    A name cut short is not: old servers take one, new ones do not, and none reads it back by that name.
    """
    if name.startswith("loose_"):
        return True  # says itself that not every server knows it
    return name in known or plain_name(name) in known


_UNSHOWN = """
    allow_suspicious_udfs ansi archive binlog_do_db binlog_ignore_db binlog_row_event_max_size blackhole
    character_set_client_handshake console federated flashback gdb debug_gdb init_rpl_role innodb innodb_status_file
    innodb_tablespaces_encryption log_ddl_recovery log_isam log_raw log_short_format master_retry_count
    max_binlog_dump_events myisam_block_size old_style_user_limits partition port_open_timeout safe_mode
    safe_user_create show_replica_auth_info show_slave_auth_info slave_start stack_trace host_cache super_large_pages
    tc_heuristic_recover temp_pool
"""
_UNSHOWN_ALIKE = ("performance_schema_consumer_",)
_OF_REPLICATION = re.compile(r"replicate_(?:wild_)?(?:do|ignore)_(?:db|table)|replicate_(?:rewrite_db|same_server_id)")
_SHOWN_BY_MYSQL_8 = ("binlog_row_event_max_size", "slave_start")


def is_unshown(name: str, version: ServerVersion) -> bool:
    """Whether a server takes the option and has no variable that shows it, as far as this is known before its start."""
    plain = plain_name(name)
    if plain in _SHOWN_BY_MYSQL_8 and version.is_mysql_from(8, 0):
        return False
    if _OF_REPLICATION.fullmatch(plain):
        return version.flavour == "mysql" or plain == "replicate_same_server_id"
    return plain in _UNSHOWN.split() or plain.startswith(_UNSHOWN_ALIKE)
