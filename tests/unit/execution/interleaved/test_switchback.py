"""Settings of a running server, set in turn and read back; a server that is a dictionary."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pymysql
import pytest
from pymysql.constants import ER

from mydyno.errors import HostError, ServerError
from mydyno.execution.interleaved.switchback import Switch
from mydyno.model.definition.experiment import Scalar
from mydyno.model.stored.records import Evidence


class Server:
    """Executes the statements of Switch on its variables; `refused` are read only."""

    def __init__(self, refused: str = "") -> None:
        self.values = {"optimizer_switch": "mrr=off,semijoin=on", "sync_binlog": "0", "init_connect": ""}
        self.refused = refused
        self.statements: list[str] = []
        self.closed = False

    def control(self) -> Server:
        return self

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed = True

    async def variables(self) -> dict[str, str]:
        return dict(self.values)

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if "@@SESSION.io" in sql:
            cause = pymysql.err.OperationalError(ER.INCORRECT_GLOBAL_LOCAL_VAR, "Variable 'io' is a GLOBAL variable")
            raise ServerError(str(cause)) from cause
        if sql.startswith("SELECT"):
            return [tuple(self.values[name] for name in re.findall(r"@@GLOBAL\.(\w+)", sql))]
        self.statements.append(sql)
        for name, value in re.findall(r"GLOBAL (\w+) = ('[^']*'|\d+)", sql):
            if name == self.refused:
                raise ServerError(f"Variable '{name}' is a read only variable")
            plain = value.strip("'")
            if name == "optimizer_switch":
                switches = dict(one.split("=") for one in self.values[name].split(","))
                switches |= dict(one.split("=") for one in plain.split(","))
                plain = ",".join(f"{switch}={state}" for switch, state in switches.items())
            self.values[name] = plain
            limit, limited = (int(self.values.get(f"io{end}", 0)) for end in ("_max", ""))
            if limited > limit:  # as MariaDB: a capacity takes its limit along, a limit the capacity
                self.values |= {"io_max": str(2 * limited)} if name == "io" else {"io": str(limit)}
        return []


SETTINGS: dict[str, dict[str, Scalar]] = {
    "plain": {},
    "mrr": {"optimizer_switch": "mrr=on"},
    "synced": {"sync_binlog": 1},
}


async def begun(server: Server) -> Switch:
    switch = Switch(SETTINGS)
    await switch.begin(server)  # type: ignore[arg-type]  # a stand-in
    return switch


async def test_an_arm_has_its_own_values_and_else_the_servers() -> None:
    server = Server()
    switch = await begun(server)
    for arm, expected in {
        "mrr": ("mrr=on,semijoin=on", "0"),
        "synced": ("mrr=off,semijoin=on", "1"),
        "plain": ("mrr=off,semijoin=on", "0"),
    }.items():
        await switch.to(arm)
        assert tuple(server.values.values()) == (*expected, ""), arm
    assert switch.switches == {"plain": 2, "mrr": 2, "synced": 2}
    await switch.end()
    assert server.closed


@pytest.mark.parametrize(
    ("own", "moved", "of_arm"),
    [
        ({"io": 4000}, ["io_max"], ("4000", "8000")),
        ({"io_max": 100}, ["io"], ("100", "100")),
        ({"io": 5000, "io_max": 9000}, [], ("5000", "9000")),
        ({"io": 20, "io_max": 30}, [], ("20", "30")),
    ],
)
async def test_what_the_server_changes_with_a_variable_is_set_too(
    own: dict[str, Scalar], moved: list[str], of_arm: tuple[str, str]
) -> None:
    server = Server()
    server.values |= {"io": "200", "io_max": "2000", "gtid_binlog_pos": "0-1-7", "init_connect": "CALL log_it()"}
    switch = Switch({"plain": {}, "other": own})
    await switch.begin(server)  # type: ignore[arg-type]  # a stand-in
    assert switch.moved == moved
    for arm, expected in (("plain", ("200", "2000")), ("other", of_arm), ("plain", ("200", "2000"))):
        await switch.to(arm)
        assert (server.values["io"], server.values["io_max"]) == expected
    for name in moved:
        server.values[name] = "17"
        with pytest.raises(ServerError, match=f"somebody else changed variables of the server: {name} is 17"):
            await switch.to("other")


async def test_equal_arms_are_set_alike() -> None:
    server = Server()
    switch = await begun(server)
    server.statements.clear()
    await switch.to("plain")
    await switch.to("plain")
    assert len(server.statements) == 2, "the same statement before every slice, whatever was loaded before it"
    assert len(set(server.statements)) == 1


async def test_a_change_by_somebody_else_is_an_error() -> None:
    server = Server()
    switch = await begun(server)
    await switch.to("synced")
    server.values["sync_binlog"] = "100"
    with pytest.raises(ServerError, match="somebody else changed variables of the server: sync_binlog is 100, not 1"):
        await switch.to("plain")
    with pytest.raises(ServerError, match="somebody else changed"):
        await switch.check()
    assert server.values["sync_binlog"] == "100", "it is left as it is"


async def test_a_variable_that_cannot_be_set_ends_the_study_with_what_to_do() -> None:
    with pytest.raises(HostError, match="read only variable") as caught:
        await begun(Server(refused="sync_binlog"))
    assert 'design.kind = "interleaved"' in str(caught.value.hint)


@pytest.mark.parametrize(
    ("init_connect", "name"),
    [
        ("SET SESSION Optimizer_Switch = 'mrr=on', sql_mode = ''", "optimizer_switch"),
        ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "transaction_isolation"),
        ("CALL begin_session()", "sync_binlog"),
        ("SET CHARSET utf8mb4", "character_set_client"),
    ],
)
async def test_a_server_that_sets_a_variable_in_each_session_is_refused(init_connect: str, name: str) -> None:
    server = Server()
    server.values |= {"init_connect": init_connect, name: "1"}
    switch = Switch({"plain": {}, "other": {name: "SERIALIZABLE"}})
    with pytest.raises(HostError, match=f"init_connect sets, or may set, {name} for each session"):
        await switch.begin(server)  # type: ignore[arg-type]  # a stand-in
    assert server.statements == []


class Told:
    """A treatment that tells when it is switched; `holds`: its proofs, one after the other, then true."""

    name = "sysctl"
    leaves = ""

    def __init__(self, told: list[str], of: str, holds: Iterable[bool] = ()) -> None:
        self.told, self.of, self.holds = told, of, iter(holds)

    async def switch_on(self, _: object) -> None:
        self.told.append(f"+{self.of}")

    async def switch_off(self, _: object) -> None:
        self.told.append(f"-{self.of}")

    async def left(self, _: object) -> str:
        return self.leaves

    async def in_force(self, _: object) -> Evidence:
        return Evidence(treatment=self.name, holds=next(self.holds, True), text="read back")


async def test_after_a_switch_that_fails_the_next_arm_has_its_own_settings() -> None:
    told: list[str] = []
    switch = Switch({"a": {}, "b": {}, "c": {}})
    failing = Told(told, "b", [True, True, False])
    switch.of_host = {"a": [Told(told, "a")], "b": [failing], "c": []}  # type: ignore[list-item]
    await switch.begin(Server())  # type: ignore[arg-type]  # a stand-in
    assert told == ["+a", "-a", "+b", "-b"]
    await switch.to("a")
    with pytest.raises(ServerError, match="sysctl: read back"):
        await switch.to("b")
    told.clear()
    await switch.to("a")
    await switch.to("a")
    await switch.to("c")
    assert told == ["-b", "+a", "-a"]


async def test_what_an_arm_leaves_is_found_before_another_one_begins() -> None:
    switch = Switch({"a": {}, "b": {}})
    treatment = Told(told := [], "a")
    treatment.leaves = "vm.swappiness is 1, not 60"
    switch.of_host = {"a": [treatment], "b": [Told(told, "b")]}  # type: ignore[list-item]
    with pytest.raises(HostError, match=r"sysctl: vm\.swappiness is 1, not 60"):
        await switch.begin(Server())  # type: ignore[arg-type]  # a stand-in
    assert told == ["+a", "-a"]


async def test_what_is_changed_under_an_arm_without_the_treatment_is_found() -> None:
    switch = Switch({"a": {}, "b": {}})
    treatment = Told([], "a")
    switch.of_host = {"a": [treatment], "b": []}  # type: ignore[list-item]
    await switch.begin(Server())  # type: ignore[arg-type]  # a stand-in
    treatment.leaves = "scheduler is bfq, not none"
    with pytest.raises(ServerError, match="somebody else changed it: scheduler is bfq"):
        await switch.to("a")


async def test_what_somebody_else_changes_on_the_host_is_found_before_the_next_switch() -> None:
    switch = Switch({"a": {}, "b": {}})
    switch.of_host = {"a": [Told([], "a", [True, False])], "b": []}  # type: ignore[list-item]
    with pytest.raises(HostError, match="sysctl: somebody else changed it: read back"):
        await switch.begin(Server())  # type: ignore[arg-type]  # a stand-in
