"""The option file of a private server, written from the experiment; nothing else configures it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mydyno.model.definition.experiment import Scalar
from mydyno.model.definition.server_options import option_name
from mydyno.servers.build import ServerBuild

DURABILITY = ("innodb_flush_log_at_trx_commit", "sync_binlog")
"""Variables that decide whether a commit waits for the disk."""


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
