"""What is checked of an external server before anything else: the account, and that every arm's load may connect."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence

from mydyno.errors import HostError, ServerError, UserError
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.experiment import ArmSpec, Experiment
from mydyno.servers.dsn import password_variables
from mydyno.servers.external_variables import BorrowedVariables, left_changed, reading, sql_value, take_turn
from mydyno.servers.sql import Address, ClientTls, Control, server_code
from mydyno.treatments.catalogue import treatments_of
from mydyno.treatments.dsn import owner_of_dsn
from mydyno.treatments.switching import switched_names
from mydyno.treatments.tls import TlsTreatment

OWN_CONNECTIONS = 8
"""Of mydyno's own at most, and one that a server reserves for its administrator."""
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


async def check_room(address: Address, experiment: Experiment, lanes: int) -> None:
    """Raises HostError where the server permits fewer connections than the load and its present users have."""
    wanted = lanes * max(step.connections for step in experiment.resolved_steps)
    async with Control(address) as control:
        most = int(await control.scalar("SELECT @@GLOBAL.max_connections"))
        connected = int((await control.status()).get("Threads_connected", 0))
    if wanted + connected + OWN_CONNECTIONS > most:
        raise HostError(
            f"server.dsn: the {lanes} runs of a block hold {wanted} connections, {connected} are open, and the server "
            f"permits {most}",
            "use fewer arms or connections",
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
            await take_turn(control)
            (values,) = await control.rows(reading(names))
            if missing := [name for name, value in zip(names, values, strict=True) if value is None]:
                raise HostError(f"server.dsn: {missing[0]} is NULL, which SET cannot set back", "omit it")
            before = dict(zip(names, map(str, values), strict=True))
            borrowed.will_set(before, {})
            for name, value in before.items():
                await control.rows(f"SET GLOBAL {name} = {sql_value(value)}")
            if (kept := await asyncio.to_thread(borrowed.give_back)) is not None:
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
