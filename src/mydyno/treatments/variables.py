"""Server variables: set in my.cnf, verified by SHOW GLOBAL VARIABLES, and by their effect where others can overrule it.

A value that the server rounds or ignores, or that is not in force, makes the run invalid. Values are compared as the
server reads them: sets in any order, a switch of `optimizer_switch` alone, enumerations by number, composite SQL modes.
`plan` and `run` read them with the option parser of each server in the cache (`mysqld --verbose --help`), and end
before anything is started where it refuses, clips or ignores one. Before the load, the effect is read of those that
the kernel, the file system or tables can overrule:

- `innodb_flush_method`, `innodb_data_file_buffering`, `innodb_log_file_buffering`, `innodb_data_file_write_through`,
  `innodb_log_file_write_through`: `O_DIRECT` and `O_DSYNC` of the open files (`/proc/PID/fdinfo`)
- `innodb_use_native_aio`: an AIO context or an io_uring; `large_pages`: the buffer pool's pages (`/proc/PID/smaps`);
  `innodb_numa_interleave`: interleaved mappings (`/proc/PID/numa_maps`)
- `thread_handling`: `Threadpool_threads`; `sysdate_is_now`: `SYSDATE()`; `plugin_load`, `plugin_load_add`: active
  plugins
- `innodb_compression_default`, `innodb_compression_algorithm`, `innodb_compression_level`: compressed tables
- `default_storage_engine`, `enforce_storage_engine`, `innodb_default_row_format`, `character_set_server`,
  `collation_server`: at least one table of the load has it

Without the effect the run is invalid. If it cannot be read, the evidence states "set; not proved".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter

from mydyno.model.definition.experiment import FINITE, Scalar, ServerSpec, Variables
from mydyno.model.definition.server_options import loading_plugins, option_name, plain_name
from mydyno.model.stored.records import Evidence
from mydyno.servers.my_cnf import is_known, option_value
from mydyno.servers.option_file import is_by_server, option_values, same_setting
from mydyno.servers.running.base import RunningServer
from mydyno.servers.running.private import PrivateServer
from mydyno.servers.time_zones import FOLDER, zone_names
from mydyno.servers.wait_counting import INSTRUMENT_OPTION, instrument_setting
from mydyno.treatments.base import Treatment
from mydyno.treatments.variable_effects import Effect, Source, effect_of

SETTING: TypeAdapter[Any] = TypeAdapter(Variables, config=FINITE)
_READ_AS = {
    "transaction_isolation": "tx_isolation",
    "transaction_read_only": "tx_read_only",
    "default_time_zone": "time_zone",
    "memlock": "locked_in_memory",
    "table_cache": "table_open_cache",
}
"""Options that a server (or an old one) shows as a variable with another name."""
_IN_OTHER_WORDS = {
    "symbolic_links": ("have_symlink", "YES", "DISABLED"),
    "ssl": ("have_ssl", "YES", "DISABLED"),
    "external_locking": ("skip_external_locking", "OFF", "ON"),
}
"""Options that are shown by another variable: its name, and its value with the option on and off."""
UNSHOWN = "the server has no variable that shows it"
_NEGATION = re.compile(r"^(?:skip|disable)_")


_SET_BY_THE_LOAD = ("autocommit", "completion_type", "sql_mode", "sql_select_limit")
"""What the built-in workloads set in each of their sessions."""


class VariablesTreatment(Treatment):
    """Server variables of one arm."""

    name = "variables"

    def __init__(self, value: dict[str, Scalar]) -> None:
        self._wanted = {option_name(name): setting for name, setting in value.items()}

    def host_changes(self, server: ServerSpec) -> list[str]:
        """Of an external server; `plan` adds the values that it has."""
        return [] if server.dsn is None else ["variables of the external server, between slices (--allow-changes)"]

    def obstacle(self, server: ServerSpec) -> str | None:
        """A time zone of which the tables of a private server, made of this host's files, have no name."""
        zone = str(self._wanted.get("default_time_zone", "SYSTEM"))
        if server.dsn is not None or zone.upper() == "SYSTEM" or zone.startswith(("+", "-")):
            return None
        if zone.lower() in map(str.lower, zone_names()):
            return None
        return f"default_time_zone = {zone}: no such time zone in {FOLDER} of this host; use an offset as +01:00"

    def statements_obstacle(self) -> str | None:
        """Built-in workloads set the state of their sessions, so that the server's value changes nothing."""
        found = [name for name in _SET_BY_THE_LOAD if name in self._wanted]
        if len(found) < len(self._wanted) or not found:
            return None  # the others are under test
        return (
            f"{', '.join(found)}: every session of a built-in workload sets its own value; "
            "use steps.script, steps.sql or steps.replay"
        )

    async def apply(self, instance: RunningServer) -> None:
        """Into my.cnf."""
        instance.settings.variables.update(self._wanted)

    async def evidence(self, instance: RunningServer) -> Evidence:
        """Each variable read back by SQL, and the effect of those that others than the server decide."""
        private = instance if isinstance(instance, PrivateServer) else None
        async with instance.control() as control:
            actual = {name.lower(): value for name, value in (await control.variables()).items()}
            if INSTRUMENT_OPTION in self._wanted:
                setting = str(self._wanted[INSTRUMENT_OPTION])
                actual[INSTRUMENT_OPTION] = await instrument_setting(control, setting)
            found = {name: Shown.of(name, value, actual) for name, value in self._wanted.items()}
            source = Source(instance.pid, control, actual)
            effects = {}
            for name, shown in found.items():
                plain = name.removeprefix("loose_")
                if effect := await effect_of(plain, shown.actual or shown.wanted, source):
                    effects[name] = effect
                elif shown.actual is None and private and is_known(plain, private.build.variables):
                    effects[name] = Effect(None, UNSHOWN)
        ignored = await self._ignored(found.keys() - effects.keys(), found, private) if private else {}
        if len(ignored) < len(self._wanted):
            effects |= {name: Effect(None, why) for name, why in ignored.items()}
        unlike = {name: self._wanted[name] for name, shown in found.items() if not shown.holds and shown.actual}
        if unlike and private:
            read = (await option_values(private.build, private.host, unlike)).values
            found |= {name: replace(found[name], by_parser=read.get(found[name].variable)) for name in unlike}
        facts: dict[str, dict[str, Any]] = {
            name: {"wanted": option_value(value), "actual": found[name].actual} for name, value in self._wanted.items()
        }
        wrong = [
            f"{name} is {found[name].text}, wanted {option_value(value)}"
            for name, value in self._wanted.items()
            if not found[name].holds and (found[name].actual is not None or name not in effects)
        ]
        if not wrong:
            wrong = [
                f"{name} = {found[name].value} is not in force: {effect.text}"
                for name, effect in effects.items()
                if effect.holds is False
            ]
        for name, effect in effects.items():
            facts[name] |= {"effect": effect.text, "proved": effect.holds}
        text = "; ".join(wrong or self._proofs(found, effects))
        return Evidence(treatment=self.name, holds=not wrong, text=text, facts=facts, instance=instance.number)

    async def _ignored(self, names: Set[str], found: Mapping[str, Shown], private: PrivateServer) -> dict[str, str]:
        """Option → why nothing shows it, of those that the server does not know, removed, or knows with a plugin."""
        unknown = {name: self._wanted[name] for name in self._wanted if name in names and found[name].actual is None}
        loose = {name: "the server does not have it" for name in unknown if name.startswith("loose_")}
        others = {name: value for name, value in unknown.items() if name not in loose}
        if not others:
            return loose
        loading = loading_plugins({**private.settings.base, **self._wanted})
        read = await option_values(private.build, private.host, {**loading, **others})
        removed = {name: "the server removed it" for name in others if plain_name(name) in read.removed}
        return loose | (dict.fromkeys(others, UNSHOWN) if loading and not read.errors else {}) | removed

    def _proofs(self, found: Mapping[str, Shown], effects: Mapping[str, Effect]) -> list[str]:
        """How each variable is known to be in force."""
        by_sql = ", ".join(f"{name} = {found[name].value}" for name in self._wanted if name not in effects)
        return [f"{by_sql} (read back by SQL)"] * bool(by_sql) + [
            f"{name} = {found[name].value} ({effect.text if effect.holds else f'set; not proved: {effect.text}'})"
            for name, effect in effects.items()
        ]


@dataclass(frozen=True)
class Shown:
    """An option as a running server shows it."""

    variable: str
    """The variable that shows it."""
    wanted: str
    """The value that this variable has with the option."""
    actual: str | None
    """The value that it has; None: there is no such variable."""
    by_parser: str | None = None
    """What the server's own parser makes of the wanted value, where that was needed."""

    @classmethod
    def of(cls, name: str, value: Scalar, actual: Mapping[str, str]) -> Shown:
        """The option among SHOW GLOBAL VARIABLES (`actual`, names in lower case)."""
        plain, wanted = name.removeprefix("loose_"), option_value(value)
        is_off = same_setting(wanted, "OFF")
        if (shown := read_back(plain, actual)) is not None:
            if plain == "log_bin" and not (is_off or same_setting(wanted, "ON")):
                wanted = "ON"  # its value is the name of the log's files, and it reads back whether there are any
            return cls(plain if plain in actual else _READ_AS[plain], wanted, shown)
        if plain in _IN_OTHER_WORDS:
            variable, on, off = _IN_OTHER_WORDS[plain]
            return cls(variable, off if is_off else on, actual.get(variable))
        if _NEGATION.match(plain):
            return cls.of(_NEGATION.sub("", plain), is_off or wanted == "0", actual)
        return cls(plain, wanted, None)

    @property
    def holds(self) -> bool:
        """Whether the two are the same setting."""
        if self.actual is None:
            return False
        if self.variable == "open_files_limit" and self.wanted.isdigit() and self.actual.isdigit():
            return int(self.actual) >= int(self.wanted)  # a server takes all that it may open
        if self.variable.startswith("innodb_monitor_"):
            return self.actual == self.wanted.partition(",")[0]  # the rest of a list is cut off when it is read
        return same_setting(self.wanted, self.actual) or (
            self.by_parser is not None and is_by_server(self.wanted, self.by_parser, self.actual)
        )

    @property
    def value(self) -> str:
        """What the server shows, else what was set."""
        return self.wanted if self.actual is None else self.actual

    @property
    def text(self) -> str:
        """What the server shows, in a sentence about its difference."""
        return "unknown to the server" if self.actual is None else self.actual or "empty"


def read_back(name: str, actual: Mapping[str, str]) -> str | None:
    """What SHOW GLOBAL VARIABLES (`actual`, names in lower case) says of an option; None if it has no such one."""
    plain = name.removeprefix("loose_")
    return actual.get(plain, actual.get(_READ_AS.get(plain, plain)))
