"""The study environment of a study on an external server: drivers and telemetry only; mydyno does not manage it.

Before anything else the account is checked, and that every arm's load may connect.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from mydyno.drivers.base import SCHEMA
from mydyno.errors import DriverError, HostError, ServerError, UserError
from mydyno.execution.environments.environment import Say, StudyEnvironment, make_folders
from mydyno.execution.environments.external_probe import ExternalSampler, put_probe, remote_facts, server_pid
from mydyno.execution.environments.private_environment import get_drivers
from mydyno.execution.environments.probe import Probe, Sampler
from mydyno.execution.external_writes import StepWrites, load_writes, schemas_of
from mydyno.hosts.commands import protect
from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.network_card import interface_towards
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.remote.ssh import SshHost
from mydyno.hosts.undo import UndoJournal
from mydyno.language import listing
from mydyno.model.definition.experiment import EXISTING, ArmSpec, Experiment
from mydyno.model.definition.plan import instances_of_each
from mydyno.servers.dsn import password_variables
from mydyno.servers.external_variables import BorrowedVariables, left_changed, reading, setting
from mydyno.servers.running.base import WHOLE_HOST, CpuSlot, RunningServer
from mydyno.servers.running.external import (
    MARKER,
    ExternalHooks,
    ExternalServer,
    Missing,
    UserCommands,
    mark_as_begun,
    mark_as_complete,
    missing_data,
    missing_file,
    shape_of,
)
from mydyno.servers.sql import THIS_SERVER, Address, ClientTls, Control, server_code
from mydyno.servers.templates import Template
from mydyno.treatments.catalogue import treatments_of
from mydyno.treatments.coexistence import interleaving_obstacles, is_switched, switched_names
from mydyno.treatments.dsn import addresses_of, owner_of_dsn, places_of
from mydyno.treatments.tls import TlsTreatment
from mydyno.workloads.data import kind_of
from mydyno.workloads.files import file_of, short

OWN_CONNECTIONS = 6
"""Of mydyno's own at most, beside the one that asks how many are open."""
COMPARED_SESSIONS = 6
"""Open at the same time: where each goes to one of two servers at random, both are found in 97 % of all cases."""
UNLIMITED = frozenset({"SUPER", "CONNECTION ADMIN", "ALL PRIVILEGES"})
"""Privileges with which MariaDB's own limit does not count; as dynoload knows them. MySQL's counts for everybody."""
WRITING = UNLIMITED | {"CONNECTION_ADMIN", "READ ONLY ADMIN", "READ_ONLY ADMIN"}
"""Privileges of which some server lets its accounts write where read_only = ON."""
REFUSED = (1044, 1045, 1130, 1698)
"""The server's codes for an account, a password, or a client's address that it does not accept."""


async def check_connection(address: Address, experiment: Experiment, arm: ArmSpec) -> str:
    """VERSION() of the arm's server, with mydyno's own connection and that of each arm's load.

    Raises UserError if the server refuses mydyno, HostError if it would refuse an arm's load.
    """
    try:
        async with Control(address) as control:
            version = str(await control.scalar("SELECT VERSION()"))
            required = await _requires_transport(control)
    except ServerError as error:
        raise UserError(f"server.dsn: {error.message}", _hint(error, address, arm)) from error
    if address.socket is None:
        await _check_loads(address, experiment, required=required)
    return version


async def _requires_transport(control: Control) -> bool:
    """Whether the server accepts no plain text over TCP."""
    rows = await control.rows("SHOW GLOBAL VARIABLES LIKE 'require_secure_transport'")
    return any(str(value).upper() in ("ON", "1") for _, value in rows)


def lanes_at(experiment: Experiment, addresses: Mapping[str, Sequence[Address]]) -> Counter[Address]:
    """{server: how many lanes of a block are loaded at it}, at most; of several instances a copy has one of its own."""
    lanes: Counter[Address] = Counter()
    for arm in experiment.arms:
        for one in addresses[arm.name]:
            lanes[one] += experiment.copies_of(arm) if instances_of_each(experiment) == 1 else 1
    return lanes


def _place(address: Address) -> tuple[object, ...]:
    return address.socket, address.host, address.port


async def check_room(control: Control, user: str, experiment: Experiment, lanes: int, of_account: int) -> None:
    """Raises HostError where the server, or the account, permits fewer connections than the load and its present users
    have. `lanes`: of a block at this server, and those of this account.
    """
    most = int(await control.scalar("SELECT @@GLOBAL.max_connections"))
    connected = int((await control.status()).get("Threads_connected", 0))
    rooms = [("the server", lanes, connected, most, 1)]  # one is reserved for the administrator
    if (limit := await _account_limit(control)) is not None:
        users = [str(row[1]) for row in await control.rows("SHOW PROCESSLIST")]
        rooms.append(("max_user_connections of the account", of_account, users.count(user), limit, 0))
    for who, count, opened, permitted, reserved in rooms:
        wanted = count * max(step.connections for step in experiment.resolved_steps)
        if wanted + opened + OWN_CONNECTIONS + reserved > permitted:
            raise HostError(
                f"server.dsn: the {count} runs of a block hold {wanted} connections, {opened} are open, and {who} "
                f"permits {permitted}",
                "use fewer arms or connections",
            )


async def _account_limit(control: Control) -> int | None:
    """A session has the account's own limit, if it has one, and otherwise the server's; 0: none."""
    ((own, of_server),) = await control.rows("SELECT @@SESSION.max_user_connections, @@GLOBAL.max_user_connections")
    if own <= 0 or (own == of_server and await _is_mariadb(control) and await _has_any(control, UNLIMITED)):
        return None
    return int(own)


async def _is_mariadb(control: Control) -> bool:
    return "mariadb" in str(await control.scalar("SELECT VERSION()")).lower()


async def _has_any(control: Control, privileges: Set[str]) -> bool:
    """Whether the account has one of these for all schemas."""
    for (grant,) in await control.rows("SHOW GRANTS"):
        granted, of_all, _ = str(grant).removeprefix("GRANT ").partition(" ON *.* TO ")
        if of_all and not privileges.isdisjoint(map(str.strip, granted.split(","))):
            return True
    return False


async def check_one_server(address: Address) -> None:
    """Raises UserError where a proxy or a name distributes sessions over several servers."""
    async with AsyncExitStack() as sessions:
        opened = [await sessions.enter_async_context(Control(address)) for _ in range(COMPARED_SESSIONS)]
        found = {str(await control.scalar(THIS_SERVER)) for control in opened}
    if len(found) > 1:
        raise UserError(f"server.dsn leads to several servers ({'; '.join(sorted(found))})", "name one of them")


async def check_writable(control: Control, writes: Sequence[StepWrites], *, prepares: bool) -> None:
    """Raise UserError for a server that is read only, if something is certainly written, or may be: by a script of an
    account that may write nevertheless. Of other accounts the server refuses each write of a script itself.
    """
    read_only = str(await control.scalar("SELECT @@GLOBAL.read_only"))
    certain = prepares or any(one.tables for one in writes)
    if read_only.upper() not in ("0", "OFF") and (certain or await _has_any(control, WRITING)):
        account = "" if certain else ", an account without privileges to write here"
        raise UserError(
            "server.dsn: read_only = ON: what is written here makes it differ from its source",
            f"use a load that only reads{account}, or the DSN of the source",
        )


async def check_changes(address: Address, experiment: Experiment, paths: HostPaths, undo: UndoJournal) -> None:
    """Whether the arms' variables may and can be set: each is set to the value that it has, as a block would do it.

    Raises UserError without permission, HostError where the server refuses it, another study changes them now, or a
    killed one still has to set something back.
    """
    dsn, names = experiment.server.dsn or "", switched_names(experiment)
    if not names:
        return
    if not paths.allow_changes:
        raise UserError(
            f"the arms set {', '.join(names)} on an external server, which needs permission (--allow-changes)",
            "`mydyno plan` names the values now and of each arm; they are set back however the study ends",
        )
    if left := left_changed(undo, dsn):
        raise HostError(
            f"a killed study still has to set variables of this server back: {'; '.join(left)}",
            f"run `mydyno clean`, with {_variables_of(experiment.arm(experiment.control))} set where the account has a "
            "password",
        )
    borrowed = BorrowedVariables(undo, dsn, owner_of_dsn(experiment.arm(experiment.control)))
    try:
        async with Control(address) as control:
            await borrowed.take_turn(control)
            (values,) = await control.rows(reading(names))
            if missing := [name for name, value in zip(names, values, strict=True) if value is None]:
                raise HostError(f"server.dsn: {missing[0]} is NULL, which SET cannot set back", "omit it")
            before = dict(zip(names, map(str, values), strict=True))
            borrowed.will_set(before, {})
            for name, value in before.items():
                await control.rows(setting({name: value}))
            if (kept := await borrowed.give_back()) is not None:
                raise HostError(f"could not be set back: {kept}")
    except ServerError as error:
        raise HostError(
            f"server.dsn: {error.message}",
            "a variable of a running server is one that SET GLOBAL accepts, and the account needs "
            "SYSTEM_VARIABLES_ADMIN (MySQL) or SUPER (MariaDB)",
        ) from error


def _variables_of(arm: ArmSpec) -> str:
    return " or ".join(password_variables(owner_of_dsn(arm)))


def _hint(error: ServerError, address: Address, arm: ArmSpec) -> str:
    if server_code(error) in REFUSED:
        without = address.socket is None and (address.tls or ClientTls()).mode == "disabled"
        also = "; ssl-mode=required, if the server requires TLS" if without else ""
        return f"is {_variables_of(arm)} set, and right?{also}"
    if f"[Errno {errno.EADDRNOTAVAIL}]" in error.message:
        return "no local TCP port was free: see net.ipv4.ip_local_port_range and net.ipv4.tcp_tw_reuse"
    if "SSL" in error.message:
        return "see ssl-mode, ssl-ca, ssl-cert and ssl-key in server.dsn"
    return "is it the address of a MySQL or MariaDB server that runs?"


async def _check_loads(address: Address, experiment: Experiment, *, required: bool) -> None:
    """Raises HostError with the arms that would connect as the server, the account or the driver does not permit."""
    tls = address.tls or ClientTls()
    drivers = sorted({step.driver for step in experiment.resolved_steps} - {"dynoload"})
    if drivers and tls.of_load is not None:
        raise HostError(
            f"server.dsn: {drivers[0]} cannot prove that it uses TLS, which ssl-mode={tls.mode} requires of the load",
            'set driver = "dynoload" in [[steps]]',
        )
    plain = [arm for arm in experiment.arms if _load_tls(arm, tls) is None]
    timed = [arm for arm in experiment.arms if "network" in arm.treatments]
    if not plain and not timed:
        return
    reason = "require_secure_transport = ON" if required else await _refusal_of_plain_text(address)
    if reason and plain:
        raise HostError(
            f"{_names(plain)}: the server requires TLS ({reason}), and the load would be in plain text",
            'set tls = "1.2" or "1.3" in the arms, or ssl-mode=required in server.dsn for arms without tls',
        )
    if reason:
        raise HostError(
            f"{_names(timed)}: the server requires TLS ({reason}), and the transfers that prove a network are in "
            "plain text",
            "remove network, or use an account and a server that permit plain text",
        )


def _load_tls(arm: ArmSpec, dsn: ClientTls) -> ClientTls | None:
    for treatment in treatments_of(arm):
        if isinstance(treatment, TlsTreatment):
            return treatment.tls_of_external(dsn).of_load
    return dsn.of_load


async def _refusal_of_plain_text(address: Address) -> str | None:
    """The server's words where it refuses this account without TLS."""
    try:
        async with Control(address, plain=True):
            return None
    except ServerError as error:
        return error.message


def _names(arms: Sequence[ArmSpec]) -> str:
    return f"arm{'s' if len(arms) > 1 else ''} {', '.join(arm.name for arm in arms)}"


@dataclass
class ExternalEnvironment(StudyEnvironment):
    """The environment of a study on an external server: arms differ only in what the client side can change.

    Data are restored where the user's restore hook makes them what they were before each run.
    """

    addresses: dict[str, tuple[Address, ...]]
    """{arm: its servers, one of which a block has}."""
    writes: tuple[StepWrites, ...] = ()
    """Of the load."""
    began: bool = False
    """Whether a run has begun, so that the load may have written."""
    hooks: ExternalHooks | None = None
    server_host: ServerHost | None = None
    """Reached by SSH; None: the server is sampled by SQL alone."""

    def instance(
        self, folder: Path, log: Path, number: int = 1, cpu_slot: CpuSlot = WHOLE_HOST, arm: str | None = None
    ) -> ExternalServer:
        """The external server of the arm."""
        assert cpu_slot.number == 1, "forecast refuses several instances of an external server"
        folder.mkdir(parents=True, exist_ok=True)
        log.write_text("an external server keeps its own error log\n")
        addresses = self.addresses[arm or self.experiment.control]
        return ExternalServer(addresses, self.host, folder, log, self.experiment.server.card, number)

    def probe(self, instances: Sequence[RunningServer], *, speed_meter: bool = False) -> Sampler:
        """The sampler: this host, its interface on the route to the server, the server's status by SQL; its host."""
        del speed_meter  # of the load's host, which is not the server's
        program = self.paths.program("dynoprobe")
        own_address = self.addresses[self.experiment.control][0]
        interface = None if own_address.socket else interface_towards(own_address.host)
        networks = [f"{interface}@{os.getpid()}"] if interface else []
        own = Probe.of_servers(program, instances, self.scratch, self.sockets, networks)
        there = self.server_host
        if there is None:
            return own
        return ExternalSampler(own, there.host, there.program, there.pid, there.data_folder)

    async def template(self, arm: ArmSpec, say: Say) -> None:
        """Prepare the data of the arm's servers, or complete them, if that is allowed and needed. Raises HostError if
        that fails.
        """
        for address in self.addresses[arm.name]:
            await self._prepare(address, say)

    async def _prepare(self, address: Address, say: Say) -> None:
        data = self.experiment.data
        database, allowed = address.database, self.paths.allow_writes
        shape = shape_of(data) if data.sql is None else {"sql": short(data)}
        if data.workload == EXISTING:
            missing = Missing.NOTHING
        elif data.sql is None:
            missing = await missing_data(address, data, load_writes=bool(self.writes), allow_writes=allowed)
        else:
            missing = await missing_file(address, file_of(data).name, shape, allow_writes=allowed)
        if self.writes or missing is not Missing.NOTHING:
            async with Control(address) as control:
                await check_writable(control, self.writes, prepares=missing is not Missing.NOTHING)
        if missing is Missing.NOTHING:
            return
        resume = missing is Missing.REST
        say(f"{'completing' if resume else 'preparing'} data in {database}: {kind_of(data).words(data)}")
        driver = self.drivers[self.experiment.resolved_steps[0].driver]
        if data.sql is not None:  # a dump is loaded into an empty schema
            await driver.prepare(address, data, self.sockets, self.scratch / "prepare.log")
        await mark_as_begun(address, shape)
        if data.sql is not None:
            await mark_as_complete(address)
            return
        try:
            await driver.prepare(address, data, self.sockets, self.scratch / "prepare.log", resume=resume)
        except DriverError as error:
            if not resume:
                raise
            hint = f"drop the tables of {database} ({MARKER} too) to have them prepared again"
            raise HostError(f"server.dsn: the data cannot be completed: {error.message}", hint) from error
        await mark_as_complete(address)

    async def restore(self, template: Template | None, instance: RunningServer) -> None:  # noqa: ARG002
        """The user's hooks, where there are any: restore the data, restart the server."""
        self.began = True
        if self.hooks is None:
            return
        await self.hooks.before_run(instance.log.parent)
        if self.server_host is not None:
            await self.server_host.find_server(self.addresses[self.experiment.control][0])

    def stays(self) -> str:
        """The load's schema, and nothing else."""
        places = listing(places_of(self.experiment))
        schema = f"the schema {listing(schemas_of(self.experiment))} stays"
        if self.writes and self.began:
            tables = tuple(dict.fromkeys(table for one in self.writes for table in one.tables or ("any table",)))
            schema += f", with what the load changed in {listing(tables)}"
        return f"{places}: all connections are closed, and no arm's variables are in force; {schema}"

    def close(self) -> list[str]:
        """Undo everything that is still open; returns what could not be."""
        if self.server_host is not None:
            self.server_host.host.abort()
        return super().close()


@dataclass
class ServerHost:
    """The host of an external server, with dynoprobe on it."""

    host: SshHost
    program: str
    """dynoprobe."""
    pid: int = 0
    """Process ID of the server; it changes with each restart."""
    data_folder: str = ""

    @classmethod
    async def open(cls, address: str, program: Path, server: Address) -> ServerHost:
        """Connect, copy dynoprobe, find the server. Raises HostError."""
        host = await SshHost.connect(address)
        try:
            made = cls(host, await put_probe(host, program))
            await made.find_server(server)
        except BaseException:
            await host.close()
            raise
        return made

    async def find_server(self, server: Address) -> None:
        """Which process it is now. Raises HostError."""
        async with Control(server) as control:
            variables = await control.variables()
        self.data_folder = variables["datadir"]
        self.pid = await server_pid(self.host, variables["pid_file"], self.data_folder)


def _check_hooks(experiment: Experiment, paths: HostPaths) -> None:
    hooks = experiment.server.hooks
    if hooks is not None and hooks.restore is not None and not paths.allow_writes:
        raise UserError(
            "server.hooks.restore writes to an external server, which needs permission (--allow-writes)",
            "add --allow-writes, or remove server.hooks.restore",
        )


async def open_external_environment(
    paths: HostPaths, experiment: Experiment, study: str, study_path: Path, say: Say
) -> ExternalEnvironment:
    """Check that the server answers, and fetch the drivers. On any failure nothing is left behind."""
    addresses = {arm.name: addresses_of(arm, experiment.server) for arm in experiment.arms}
    address = addresses[experiment.control][0]
    if experiment.server.variables:
        raise UserError("server.variables: an external server (dsn) is never configured", "remove the section")
    writes = load_writes(experiment, paths)
    if writes and experiment.data.workload != "oltp" and not paths.allow_writes:  # of oltp, missing_data() says more
        raise UserError(
            f"server.dsn: {writes[0].words}, and an external server is not written to without permission "
            "(--allow-writes)",
            "add --allow-writes, or use a load that only reads (of a capture: options.read_only = true)",
        )
    for one in dict.fromkeys(one for of_arm in addresses.values() for one in of_arm):
        protect(os.fsdecode(one.password))
        if experiment.data.workload == "oltp" and one.database != SCHEMA:
            raise UserError(
                f"server.dsn: the schema is {one.database}", f"sysbench's tables are in {SCHEMA}: use this schema"
            )
    _check_hooks(experiment, paths)
    undo = UndoJournal.begin(paths.undo, study, study_path, paths.root)
    there: ServerHost | None = None
    try:
        undo.will_change("processes", cookie=study)
        scratch, sockets = make_folders(paths, study, undo)
        host = LocalHost(study, paths.server_user, undo)
        versions_of = {
            arm.name: listing(
                tuple(dict.fromkeys([await check_connection(one, experiment, arm) for one in addresses[arm.name]]))
            )
            for arm in experiment.arms
        }
        held = is_switched(experiment) or not interleaving_obstacles(experiment, paths)
        lanes = lanes_at(experiment, addresses)
        for one in lanes:
            beside = {other: count for other, count in lanes.items() if _place(other) == _place(one)}
            of_account = sum(count for other, count in beside.items() if other.user == one.user)
            counts = (sum(beside.values()), of_account) if held else (1, 1)
            async with Control(one) as control:
                await check_room(control, one.user, experiment, *counts)
            await check_one_server(one)
        await check_changes(address, experiment, paths, undo)
        drivers, versions = await get_drivers(experiment, paths, host, say)
        versions["server"] = versions_of[experiment.control]
        if len(set(addresses.values())) > 1:
            versions |= {f"server of {arm}": version for arm, version in versions_of.items()}
        if experiment.server.ssh is not None:
            say(f"preparing telemetry on {experiment.server.ssh}")
            there = await ServerHost.open(experiment.server.ssh, paths.program("dynoprobe"), address)
        spec = experiment.server.hooks
        hooks = None
        if spec is not None:
            where = "this host" if there is None else there.host.name
            hooks = ExternalHooks(spec, UserCommands() if there is None else there.host, where, address)
        return ExternalEnvironment(
            paths, experiment, host, undo, drivers, scratch, sockets, versions, addresses, writes,
            restores_data=spec is not None and spec.restore is not None, hooks=hooks, server_host=there,
            server_facts={} if there is None else await remote_facts(there.host),
        )  # fmt: skip
    except BaseException:
        if there is not None:
            await there.host.close()
        undo.undo_all()
        raise
