"""Global variables of a server that others use: changed for slices of a study, and given back however it ends.

The values from before are in the undo journal before the first change, with the server that has them: a DSN may lead to
another one later. A variable that has a value by then which is neither the one from before nor one of the study's was
changed by somebody else, and is left alone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any

from pymysql.constants import ER

from mydyno.errors import HostError, MydynoError, ServerError
from mydyno.hosts.root import HostRoot
from mydyno.hosts.undo import UNDOERS, UndoJournal, stale_journals
from mydyno.model.definition.experiment import Scalar
from mydyno.model.definition.quantities import parse_bytes
from mydyno.servers.dsn import parse_dsn, password_variables, place_of
from mydyno.servers.my_cnf import option_value
from mydyno.servers.sql import THIS_SERVER, Address, Control, Rows, server_code, session_now

KIND = "server_variables"
LOCK = "mydyno.variables"
"""A user lock of the server, held by the session of the study that changes its variables."""

NO_USER_LOCKS = (ER.UNKNOWN_ERROR, ER.NOT_SUPPORTED_YET)
"""Codes of Percona XtraDB Cluster with pxc_strict_mode = ENFORCING, and of Galera."""
MOST_SETS = 3
"""How often values are set until they are read back: a server limits one variable by another (innodb_io_capacity by
innodb_io_capacity_max), in the order of the statement."""
Sessions = Callable[[Address], AbstractContextManager[Rows]]
"""Opens one, outside of any event loop."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]\d+)?")
_SIZE = re.compile(r"\d+[KMGT]", re.IGNORECASE)
_UNTOUCHED = {
    "whether and as whom it serves": r"(super_)?read_only|offline_mode|server_(id|uuid)|skip_.+|port|hostname|bind_.+|"
    r".*max_.*connections|connection_.+|(connect|wait|interactive|net_.+|idle_.+)_timeout|max_allowed_packet|"
    r"event_scheduler",
    "replication": r"gtid_.+|log_bin.*|sql_log_.+|binlog_(format|row_.+|checksum|annotate.*|encryption|expire.*|do_.*|"
    r"ignore_.*|transaction_.+)|expire_logs_days|(rpl|slave|replica|relay|master|source|wsrep|group_replication)_.+",
    "security": r"(require_)?secure_.+|(ssl|tls|validate|simple|cracklib|authentication|caching|mysql_native)_.+|"
    r".*password.*|default_authentication_plugin|local_infile|init_.+|.*(audit|encrypt|keyring|roles|proxy).*|"
    r"log_bin_trust.*|automatic_sp_privileges",
    "what other users' statements mean": r"sql_(mode|big_.+|auto_is_null|safe_.+|select_.+|warnings|notes|quote_.+)|"
    r"autocommit|completion_type|(character_set|collation|lc|time_zone|default|enforce)_?.*|"
    r"(foreign_key|unique)_checks|(tx|transaction)_(read_only|isolation)|max_(statement|execution)_time|"
    r"group_concat_max_len|div_precision_increment|"
    r"innodb_(rollback_on_timeout|strict_mode|autoinc_lock_mode)|auto_increment_.+|old.*",
    "it cannot be set back without a trace": r"(innodb_)?(buffer_pool|key_buffer|key_cache|query_cache)_.+|"
    r"innodb_(log_file|redo|undo|force|fast_shutdown|fil_|ft_|monitor|.+_now).*|innodb_.*(truncate|dump).*|"
    r"table_.*cache.*|thread_cache_size|performance_schema.*",
}
"""{why: names} of variables of a running server that are never changed."""


def untouched(names: Iterable[str]) -> dict[str, str]:
    """{variable: why it is never changed on a running server}, of those."""
    found = {}
    for name in names:
        why = next((why for why, pattern in _UNTOUCHED.items() if re.fullmatch(pattern, name)), None)
        if why is not None:
            found[name] = why
    return found


def sql_value(value: Scalar) -> str:
    """A value of an option file as SET has it: sizes in bytes, numbers without exponents, words quoted."""
    text = option_value(value)
    if _NUMBER.fullmatch(text):
        return f"{Decimal(text):f}"
    if _SIZE.fullmatch(text):
        return str(parse_bytes(text))
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def reading(names: Sequence[str]) -> str:
    """The statement that reads global variables."""
    return "SELECT " + ", ".join(f"@@GLOBAL.{name}" for name in names)


def setting(values: Mapping[str, Scalar]) -> str:
    """The statement that sets global variables."""
    return "SET " + ", ".join(f"GLOBAL {name} = {sql_value(value)}" for name, value in values.items())


class BorrowedVariables:
    """The variables that a study sets on an external server, in one block after the other."""

    def __init__(self, undo: UndoJournal, dsn: str, arm: str = "") -> None:
        """`arm`: whose own the DSN is; empty: the experiment's."""
        self._undo, self._dsn = undo, dsn
        self._facts: dict[str, Any] = {"arm": arm} if arm else {}
        self._entry: int | None = None
        self._control: Control | None = None

    async def take_turn(self, control: Control) -> str:
        """Be the only mydyno that changes variables of this server, from whatever host, until the session is closed;
        returns why a server refuses to see to it, as Galera does: each change is read back anyway.

        Raises HostError where another one does: what it has set would be taken for the server's own values.
        """
        self._control, self._facts["server"] = control, str(await control.scalar(THIS_SERVER))
        try:
            is_ours = await control.scalar("SELECT GET_LOCK(%s, 0)", LOCK) == 1
        except ServerError as error:
            if server_code(error) not in NO_USER_LOCKS:
                raise
            return error.message
        if not is_ours:
            raise HostError("another mydyno changes variables of this server", "wait until its study has ended")
        return ""

    def will_set(self, before: Mapping[str, str], own: Mapping[str, Sequence[str]]) -> None:
        """To be called before the first change, with `own` empty, and again when it is known how the server shows the
        study's own values: {variable: values}.
        """
        self._facts |= {"before": before, "own": own}
        former, self._entry = self._entry, self._undo.will_change(KIND, dsn=self._dsn, **self._facts)
        if former is not None:
            self._undo.undone(former)

    async def give_back(self) -> str | None:
        """Set them back; returns what could not be. In the session that set them, or else in a new one."""
        if self._entry is None:
            return None
        return await asyncio.to_thread(self._give_back, self._entry)

    def _give_back(self, entry: int) -> str | None:
        if self._is_set_back():
            self._undo.undone(entry)
        elif (left := self._undo.undo(entry)) is not None:
            return left
        self._entry = None
        return None

    def _is_set_back(self) -> bool:
        try:
            return self._control is not None and not set_back(
                self._control.rows_now, self._facts["before"], self._facts["own"]
            )
        except ServerError:
            return False  # the session has ended


def _give_back(facts: dict[str, Any], _root: HostRoot, session: Sessions = session_now) -> str | None:
    before: dict[str, str] = facts["before"]
    own: dict[str, list[str]] = facts["own"]
    arm: str = facts.get("arm", "")
    try:
        with session(parse_dsn(facts["dsn"], arm)) as rows:
            ((found,),) = rows(THIS_SERVER)
            server = facts.get("server", found)
            unlike = set_back(rows, before, own) if found == server else ""
    except MydynoError as error:
        values = ", ".join(f"{name} = {value}" for name, value in before.items())
        return (
            f"variables of {facts['dsn']}, which were {values}: {error.message} (`mydyno clean` tries again; the "
            f"account's password is {' or '.join(password_variables(arm))})"
        )
    if found != server:
        return f"variables of {server}: {facts['dsn']} leads to {found} now; execute on the former: {setting(before)}"
    return f"variables of {facts['dsn']}: the server does not take the former values: {unlike}" if unlike else None


def set_back(rows: Rows, before: Mapping[str, str], own: Mapping[str, Sequence[str]]) -> str:
    """Set back the variables that have one of the study's own values, of all where none are known; what the server did
    not take. Raises ServerError.
    """
    now = _values(rows, before)
    ours = [name for name, value in before.items() if now[name] != value and (not own or now[name] in own[name])]
    for _ in range(MOST_SETS):
        if all(now[name] == before[name] for name in ours):
            break
        rows(setting({name: before[name] for name in ours}))
        now = _values(rows, before)
    return ", ".join(f"{name} is {now[name]}, not {before[name]}" for name in ours if now[name] != before[name])


def _values(rows: Rows, names: Iterable[str]) -> dict[str, str]:
    (values,) = rows(reading(list(names)))
    return dict(zip(names, map(str, values), strict=True))


UNDOERS[KIND] = _give_back


def left_changed(undo: UndoJournal, dsn: str) -> list[str]:
    """What a killed study still has to give back on this server."""
    entries = [entry for journal in stale_journals(undo.path.parent, undo.root) for entry in journal.open_entries()]
    return [
        ", ".join(f"{name} = {value}" for name, value in entry.facts["before"].items())
        for entry in entries
        if entry.kind == KIND and place_of(entry.facts["dsn"]) == place_of(dsn)
    ]
