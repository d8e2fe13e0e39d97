"""What mydyno starts on another host: a small shell program that runs a command and ends with the connection.

sshd starts the login shell, which becomes this program. It starts the command in a session of its own and waits for it.
When the connection ends, sshd's process for it ends as well, also by kill -9, and the kernel sends SIGTERM to the
supervisor (PR_SET_PDEATHSIG). It then sends SIGTERM to the command's process group, and after a grace time SIGKILL to
the group and to every process with the connection's mark in its environment, which also finds those that left the
group. A network that is cut off without a word is noticed by sshd only when TCP or its ClientAliveInterval gives up: a
program that must end earlier has to expect heartbeats on its standard input.

Environment variables travel on standard input, in its first line: arguments are visible in the process list.
Costs three short-lived processes at the start, and a sleeping shell while the command runs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from mydyno.errors import BugError

MARK = "MYDYNO_REMOTE"
"""The environment variable of every process that was started over a connection."""
MISSING = "mydyno: setpriv or setsid is missing"
END_SIGNAL, KILL_SIGNAL = "TERM", "USR1"
"""Signals to the supervisor: end the command with the grace time; end it at once."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_WATCHED = (
    f"command -v setpriv >/dev/null && command -v setsid >/dev/null || {{ echo {MISSING} >&2; exit 126; }}; "
    'program=$1; shift; exec setpriv --pdeathsig TERM -- sh -c "$program" mydyno "$PPID" "$@"'
)
"""Arguments: the program below and its arguments. A shell without ! and line ends also passes through csh."""

_SUPERVISOR = " ".join(
    line.strip()
    for line in r"""
    parent=$1 mark=$2 grace=$3 merged=$4; shift 4;
    [ "$PPID" = "$parent" ] && [ "$PPID" -gt 1 ] || exit 129;
    IFS= read -r variables || exit 129;
    exec 3<&0;
    group() { kill -s "$1" -- "-$child" 2>/dev/null || kill -s "$1" "$child" 2>/dev/null; };
    left() { grep -lsz "^MYDYNO_REMOTE=$mark\$" /proc/[0-9]*/environ 2>/dev/null; };
    sweep() { group KILL; for file in $(left); do
      file=${file#/proc/}; kill -s KILL "${file%/environ}" 2>/dev/null; done; };
    now() { trap "" TERM HUP USR1; sweep; exit 137; };
    gently() { trap "" TERM HUP; trap now USR1; group TERM;
      setsid sh -c 'sleep "$1"; kill -s KILL -- "-$2"' killer "$grace" "$child" </dev/null >/dev/null 2>&1 3<&- &
      killer=$!; wait "$child";
      kill -s KILL -- "-$killer" 2>/dev/null || kill -s KILL "$killer" 2>/dev/null; sweep; exit 143; };
    trap gently TERM HUP; trap now USR1;
    ( trap - TERM HUP USR1; eval "$variables"; [ "$merged" = 0 ] || exec 2>&1; exec setsid "$@" ) <&3 3<&- &
    child=$!; exec 3<&- </dev/null >/dev/null 2>&1;
    wait "$child"
    """.strip().splitlines()
)
"""Arguments: sshd's process, the mark, the grace time in seconds, 1 to merge stderr into stdout, the command."""


def supervised(argv: Sequence[str], mark: str, grace_s: float, merged: bool) -> str:
    """The command line for sshd that runs argv under the supervisor; one line, quoted for the login shell."""
    inner = [_SUPERVISOR, mark, f"{grace_s:g}", "1" if merged else "0", *argv]
    return "exec " + shlex.join(["sh", "-c", _WATCHED, "mydyno", *inner])


def signalling(mark: str, name: str) -> str:
    """The command line for sshd that sends a signal to the supervisor with this mark, known by its arguments."""
    script = (
        f'for file in $(grep -lsz "^{mark}\\$" /proc/[0-9]*/cmdline); do '
        f'file=${{file#/proc/}}; kill -s {name} "${{file%/cmdline}}"; done'
    )
    return "exec " + shlex.join(["sh", "-c", script])


def first_line(environment: Mapping[str, str], mark: str) -> bytes:
    """The first line of standard input, which sets the environment. Raises BugError for a value with a line end."""
    variables = {"LC_ALL": "C.UTF-8", **environment, MARK: mark}
    for name, value in variables.items():
        if not _NAME.fullmatch(name) or "\n" in value or "\0" in value:
            raise BugError(f"the environment variable {name!r} cannot be set on another host")
    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    return f"export {words}; PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin\n".encode()
