"""Server variables: set in my.cnf, verified by SHOW GLOBAL VARIABLES, and by their effect where others can overrule it.

A value that the server rounds or ignores, or that is not in force, makes the run invalid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from mydyno.model.definition.experiment import FINITE, Scalar, ServerSpec, Variables
from mydyno.model.definition.quantities import parse_bytes
from mydyno.model.definition.server_options import option_name
from mydyno.model.stored.records import Evidence
from mydyno.servers.my_cnf import option_value
from mydyno.servers.performance_schema import INSTRUMENT_OPTION, instrument_setting
from mydyno.servers.running.base import RunningServer
from mydyno.treatments.base import Treatment
from mydyno.treatments.variable_effects import Effect, Source, effect_of

SETTING: TypeAdapter[Any] = TypeAdapter(Variables, config=FINITE)
_ON_OFF = {"ON": "1", "OFF": "0", "TRUE": "1", "FALSE": "0", "YES": "1", "NO": "0"}
_READ_AS = {
    "transaction_isolation": "tx_isolation",
    "transaction_read_only": "tx_read_only",
    "default_time_zone": "time_zone",
    "memlock": "locked_in_memory",
}
"""Options that a server (or an old one) shows as a variable with another name."""

_OF_THE_CONNECTION = (
    "ssl",
    "tls",
    "have_ssl",
    "require_secure_transport",
    "protocol_compression",
    "slave_compressed_protocol",
    "net_buffer",
    "max_allowed_packet",
    "character_set",
    "init_connect",
    "session_track",
    "resultset_metadata",
    "default_authentication",
    "authentication_policy",
)
"""What the load program's work for a query can depend on."""


_SET_BY_THE_LOAD = ("autocommit", "completion_type", "sql_mode", "sql_select_limit")
"""What the built-in workloads set in each of their sessions."""


class VariablesTreatment(Treatment):
    """Server variables of one arm."""

    name = "variables"

    def __init__(self, value: dict[str, Scalar]) -> None:
        self._wanted = {option_name(name): setting for name, setting in value.items()}

    @property
    def touches_client(self) -> bool:
        """True if one of them affects the connection: transport, packets, or the contents of result sets."""
        return any(name.startswith(_OF_THE_CONNECTION) for name in self._wanted)

    def obstacle(self, server: ServerSpec) -> str | None:
        """An external server is not configured."""
        if server.dsn is not None:
            return "an external server (dsn) is never reconfigured; use server.name or server.basedir"
        return None

    def statements_obstacle(self) -> str | None:
        """Built-in workloads set the state of their sessions, so that the server's value changes nothing."""
        found = [name for name in _SET_BY_THE_LOAD if name in self._wanted]
        if not found:
            return None
        return (
            f"{', '.join(found)}: every session of a built-in workload sets its own value; "
            "use steps.script, steps.sql or steps.replay"
        )

    async def apply(self, instance: RunningServer) -> None:
        """Into my.cnf."""
        instance.settings.variables.update(self._wanted)

    async def evidence(self, instance: RunningServer) -> Evidence:
        """Each variable read back by SQL, and the effect of those that others than the server decide."""
        async with instance.control() as control:
            actual = {name.lower(): value for name, value in (await control.variables()).items()}
            if INSTRUMENT_OPTION in self._wanted:
                setting = str(self._wanted[INSTRUMENT_OPTION])
                actual[INSTRUMENT_OPTION] = await instrument_setting(control, setting)
            found = {name: read_back(name, actual) for name in self._wanted}
            source = Source(instance.pid, control, actual)
            effects = {
                name: effect
                for name, value in found.items()
                if value is not None and (effect := await effect_of(name.removeprefix("loose_"), value, source))
            }
        facts: dict[str, dict[str, Any]] = {
            name: {"wanted": option_value(value), "actual": found[name]} for name, value in self._wanted.items()
        }
        wrong = [
            f"{name} is {'unknown to the server' if found[name] is None else found[name]}, wanted {option_value(value)}"
            for name, value in self._wanted.items()
            if not _holds(name, option_value(value), found[name])
        ]
        if not wrong:
            wrong = [
                f"{name} = {found[name]} is not in force: {effect.text}"
                for name, effect in effects.items()
                if effect.holds is False
            ]
        for name, effect in effects.items():
            facts[name] |= {"effect": effect.text, "proved": effect.holds}
        text = "; ".join(wrong or self._proofs(found, effects))
        return Evidence(treatment=self.name, holds=not wrong, text=text, facts=facts, instance=instance.number)

    def _proofs(self, found: Mapping[str, str | None], effects: Mapping[str, Effect]) -> list[str]:
        """How each variable is known to be in force."""
        by_sql = ", ".join(f"{name} = {found[name]}" for name in self._wanted if name not in effects)
        return [f"{by_sql} (read back by SQL)"] * bool(by_sql) + [
            f"{name} = {found[name]} ({effect.text if effect.holds else f'set; not proved: {effect.text}'})"
            for name, effect in effects.items()
        ]


def read_back(name: str, actual: Mapping[str, str]) -> str | None:
    """What SHOW GLOBAL VARIABLES (`actual`, names in lower case) says of an option; None if it has no such one."""
    plain = name.removeprefix("loose_")
    return actual.get(plain, actual.get(_READ_AS.get(plain, plain)))


def _holds(name: str, wanted: str, found: str | None) -> bool:
    if found is None:
        return False
    if name == "log_bin" and wanted.upper() not in _ON_OFF:
        wanted = "ON"  # its value is the name of the log's files, and it reads back whether there are any
    return same_setting(wanted, found)


def same_setting(wanted: str, actual: str) -> bool:
    """Whether two spellings say the same: 1G and 1073741824, ON and 1, O_DIRECT and o_direct."""
    spellings = [_ON_OFF.get(text.strip().upper(), text.strip().lower()) for text in (wanted, actual)]
    if spellings[0] == spellings[1]:
        return True
    try:
        numbers = [float(parse_bytes(text)) if not _is_number(text) else float(text) for text in spellings]
    except ValueError:
        return False
    return numbers[0] == numbers[1]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
