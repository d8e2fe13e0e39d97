"""The workbench of a study on an external server: only drivers and telemetry; the server is others' own."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mydyno.drivers.base import SCHEMA, Driver
from mydyno.errors import ServerError, UserError
from mydyno.hosts.canary import read_canary
from mydyno.hosts.local import LocalHost
from mydyno.hosts.network_card import interface_towards
from mydyno.hosts.settings import Settings
from mydyno.hosts.undo import UndoJournal
from mydyno.model.experiment import ArmSpec, Experiment, steps_of
from mydyno.model.records import Evidence
from mydyno.running.bench import Say
from mydyno.running.probe import Probe
from mydyno.running.workbench import get_drivers
from mydyno.servers.external import PASSWORD_VARIABLE, ExternalInstance, check_data, mark_as_made, parse_dsn
from mydyno.servers.instance import ALONE, Place
from mydyno.servers.sql import Address, Control

READ_ONLY_WORKLOADS = frozenset(
    ("connect", "oltp_read_only", "oltp_point_select", "select_random_points", "select_random_ranges")
)


@dataclass
class ExternalBench:
    """Stands where running.workbench.Workbench stands. Arms differ in what the load's side alone can do."""

    restores_data: ClassVar[bool] = False
    settings: Settings
    experiment: Experiment
    host: LocalHost
    undo: UndoJournal
    drivers: dict[str, Driver]
    scratch: Path
    sockets: Path
    versions: dict[str, str]
    address: Address

    def instance(
        self, folder: Path, log: Path, number: int = 1, place: Place = ALONE, arm: str | None = None
    ) -> ExternalInstance:
        """The external server; there is one, for all arms."""
        del arm
        assert (number, place.number) == (1, 1), "forecast refuses several instances of an external server"
        folder.mkdir(parents=True, exist_ok=True)
        log.write_text("an external server keeps its own error log\n")
        return ExternalInstance(self.address, folder, self.host, self.undo, self.experiment.server.card)

    def probe(self, instances: Sequence[ExternalInstance], speed_meter: bool = False) -> Probe:
        """The sampler: this host, its interface that leads to the server, and the server's status by SQL."""
        del speed_meter  # of the load's host, which is not the server's
        (instance,) = instances
        place = f"socket={instance.socket}" if instance.socket else f"host={self.address.host},port={self.address.port}"
        target = f"1:-,{place},user={self.address.user}"
        program = self.settings.program("dynoprobe")
        interface = None if self.address.socket else interface_towards(self.address.host)
        return Probe(
            self.host, program, [target], self.address.password, instance.data, self.scratch, self.sockets,
            f"{interface}@{os.getpid()}" if interface else None,
        )  # fmt: skip

    async def canary(self) -> dict[str, float]:
        """How fast this host is at this moment: see hosts/canary.py."""
        return await asyncio.to_thread(read_canary, self.settings.program("dynomem"), self.scratch)

    async def rehearse(self, say: Say) -> list[Evidence]:  # noqa: ARG002
        """Nothing: what is done to a load's path shows only on it."""
        return []

    async def template(self, arm: ArmSpec, say: Say) -> None:
        """Prepare the data once, where that is allowed and needed."""
        del arm
        data = self.experiment.data
        steps = steps_of(self.experiment)
        writes = any(step.workload not in READ_ONLY_WORKLOADS for step in steps)
        if await check_data(self.address, data, writes, self.settings.allow_writes):
            say(f"preparing data in {self.address.database}: {data.tables} tables of {data.rows:,} rows")
            await mark_as_made(self.address)
            driver = self.drivers[steps[0].driver]
            await driver.prepare(self.address, data, self.sockets, self.scratch / "prepare.log")

    async def prewarm(self, instance: ExternalInstance) -> None:
        """Nothing: the server is as warm as its owner keeps it."""

    async def restore(self, template: None, instance: ExternalInstance) -> None:
        """Nothing: an external server's data are not restored between runs."""

    def close(self) -> list[str]:
        """Undo everything that is still open; gives what could not be."""
        return self.undo.undo_all()


async def _version(address: Address) -> str:
    try:
        async with Control(address) as control:
            return str(await control.scalar("SELECT VERSION()"))
    except ServerError as error:
        raise UserError(f"server.dsn: {error.message}", f"is {PASSWORD_VARIABLE} set, and right?") from error


async def open_external_bench(
    settings: Settings, experiment: Experiment, study: str, study_path: Path, say: Say
) -> ExternalBench:
    """Check that the server answers, and fetch the drivers. On any failure nothing is left behind."""
    address = parse_dsn(experiment.server.dsn or "")
    if experiment.server.variables:
        raise UserError("server.variables: an external server (dsn) is never configured", "remove the section")
    if address.database != SCHEMA:
        raise UserError(
            f"server.dsn: the schema is {address.database}", f"sysbench's tables live in {SCHEMA}: name it so"
        )
    undo = UndoJournal.begin(settings.undo, study, study_path)
    try:
        undo.will_change("processes", cookie=study)
        scratch = settings.data / "runs" / study
        undo.will_change("folder", path=str(scratch))
        scratch.mkdir(parents=True, exist_ok=True)
        sockets = Path(tempfile.mkdtemp(prefix="mydyno-"))
        undo.will_change("folder", path=str(sockets))
        host = LocalHost(study, settings.server_user, undo)
        version = await _version(address)
        drivers, versions = await get_drivers(experiment, settings, host, say)
        versions["server"] = version
        return ExternalBench(settings, experiment, host, undo, drivers, scratch, sockets, versions, address)
    except BaseException:
        undo.undo_all()
        raise
