"""The workbench of one study: build, drivers, allocators and templates, and the undo journal it works by."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from mydyno.drivers.base import Driver
from mydyno.drivers.catalogue import DRIVERS
from mydyno.hosts.canary import read_canary
from mydyno.hosts.local import LocalHost
from mydyno.hosts.settings import Settings
from mydyno.hosts.undo import UndoJournal
from mydyno.model.experiment import ArmSpec, Experiment, Scalar, steps_of
from mydyno.model.records import Evidence
from mydyno.running.bench import Say
from mydyno.running.builds import check_variables, get_builds, present_builds
from mydyno.running.probe import Probe
from mydyno.servers.build import ServerBuild
from mydyno.servers.instance import ALONE, CONTROL_USER, LOAD_USER, Credentials, Instance, InstanceSettings, Place
from mydyno.servers.memcached_instance import MemcachedInstance
from mydyno.servers.my_cnf import option_name
from mydyno.servers.templates import (
    Template,
    build_template,
    copy_template,
    present_template,
    shaping_variables,
    template_key,
)
from mydyno.servers.variables_by_version import fitted
from mydyno.treatments.base import Rehearsed
from mydyno.treatments.catalogue import treatments_of
from mydyno.workloads.data import kind_of

STORING_DRIVER = "dynoload"
"""Stores the keys before a run's first step, whichever driver loads."""
SPARE_CONNECTIONS = 16
"""Connections beside the load's: control, probe, and a person who looks."""


@dataclass
class Workbench:
    """What all runs of a study share. Use open_workbench() and close()."""

    restores_data: ClassVar[bool] = True
    settings: Settings
    experiment: Experiment
    host: LocalHost
    undo: UndoJournal
    builds: dict[str, ServerBuild]
    """Arm → its server; the same for all, except where the server itself is the treatment."""
    drivers: dict[str, Driver]
    scratch: Path
    """The runs' data directories."""
    sockets: Path
    """A folder with a short path (sun_path holds 108 bytes) for sockets and password files."""
    versions: dict[str, str]
    credentials: Credentials = field(default_factory=Credentials)

    def base_variables(self) -> dict[str, Scalar]:
        """[server.variables], and room for the load's connections where the experiment says nothing."""
        said = {option_name(name): value for name, value in self.experiment.server.variables.items()}
        connections = max(step.connections for step in steps_of(self.experiment))
        room: dict[str, Scalar] = {
            "max_connections": max(151, connections + SPARE_CONNECTIONS),
            "max_prepared_stmt_count": 1_048_576,
        }
        return {**room, **said}

    def instance(
        self, folder: Path, log: Path, number: int = 1, place: Place = ALONE, arm: str | None = None
    ) -> Instance:
        """A server of this study, not yet started: the arm's, or the control's until a treatment says otherwise.

        `number` counts from 1 inside a run.
        """
        settings = InstanceSettings(base=self.base_variables())
        build = self.builds[arm or self.experiment.control]
        kind = MemcachedInstance if build.version.flavour == "memcached" else Instance
        instance = kind(build, self.host, folder, self.sockets, log, self.credentials, settings, number, place=place)
        instance.undo = self.undo
        return instance

    async def canary(self) -> dict[str, float]:
        """How fast this host is at this moment: see hosts/canary.py."""
        return await asyncio.to_thread(read_canary, self.settings.program("dynomem"), self.scratch)

    async def rehearse(self, say: Say) -> list[Evidence]:
        """Try each different treatment once that can be tried without a server. Raises HostError where one fails."""
        found: list[Evidence] = []
        tried = set()
        for arm in self.experiment.arms:
            for treatment in treatments_of(arm):
                key = (treatment.name, repr(arm.treatments[treatment.name]))
                if key in tried or not isinstance(treatment, Rehearsed):
                    continue
                tried.add(key)
                await treatment.get(self.settings.cache, self.host)
                evidence = await treatment.rehearse(self.host, self.scratch)
                if evidence is not None:
                    say(f"{treatment.name} of {arm.name} tried: {evidence.text}")
                    found.append(evidence)
        return found

    async def template(self, arm: ArmSpec, say: Say) -> Template | None:
        """The arm's prepared data; made now where no study made it before. None: memcached keeps none."""
        build = self.builds[arm.name]
        if build.version.flavour == "memcached":
            return None
        base = fitted(self.base_variables(), build.version, build.variables).variables
        shaping = shaping_variables({**base, **arm.treatments.get("variables", {})})
        data = self.experiment.data
        root = self.settings.data / "templates"
        kind = kind_of(data)
        facts = data.model_dump(include=set(kind.own_keys))
        key = template_key(build, shaping, f"{data.workload}-{kind.short(data)}", facts)
        found = present_template(root, key)
        if found is not None:
            return found
        say(f"preparing data once: {kind.words(data)} on {build.version.name}")
        folder = root / f".{key}.new"
        number = self.undo.will_change("folder", path=str(folder))
        log = self.scratch / "template.log"
        instance = self.instance(folder, log, arm=arm.name)
        instance.settings.variables.update(shaping)
        driver = self.drivers[steps_of(self.experiment)[0].driver]

        async def fill(running: Instance) -> None:
            if kind.schema_sql is not None:
                async with running.control() as control:
                    for statement in kind.schema_sql(data):
                        await control.rows(statement)
                return
            await driver.prepare(running.address(LOAD_USER), data, self.sockets, self.scratch / "prepare.log")

        template = await build_template(root, key, instance, fill)
        self.undo.undone(number)
        return template

    def probe(self, instances: Sequence[Instance], speed_meter: bool = False) -> Probe:
        """The sampler of one run, not yet started."""
        targets = [
            f"{one.number}:{one.pid}"
            + ("" if one.version.flavour == "memcached" else f",socket={one.socket},user={CONTROL_USER}")
            for one in instances
        ]
        instance = instances[0]
        program = self.settings.program("dynoprobe")
        return Probe(
            self.host, program, targets, instance.credentials.control, instance.data, self.scratch, self.sockets,
            [f"{one.settings.interface}@{one.pid}" for one in instances if one.settings.interface], speed_meter,
        )  # fmt: skip

    async def prewarm(self, instance: Instance) -> None:
        """Read all data once, so that no run begins colder than another; store first what no template can hold."""
        if kind_of(self.experiment.data).store_s is not None:
            await self._store(instance)
        if self.experiment.data.prewarm and instance.version.flavour != "memcached":
            async with instance.control() as control:
                for statement in kind_of(self.experiment.data).prewarm_sql(self.experiment.data):
                    await control.rows(statement)

    async def _store(self, instance: Instance) -> None:
        """All keys by the load's own protocol: what lies in table and cache is then what the policy puts there.

        InnoDB does not sync each commit meanwhile; the load's own setting is back before its first step.
        """
        driver = self.drivers[STORING_DRIVER]
        arguments = (self.experiment.data, self.sockets, self.scratch / "prepare.log")
        if instance.version.flavour == "memcached":
            await driver.prepare(instance.address(LOAD_USER), *arguments)
            return
        async with instance.control() as control:
            usual = int(await control.scalar("SELECT @@innodb_flush_log_at_trx_commit"))
            await control.rows("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
            try:
                await driver.prepare(instance.address(LOAD_USER), *arguments)
            finally:
                await control.rows(f"SET GLOBAL innodb_flush_log_at_trx_commit = {usual}")

    async def restore(self, template: Template | None, instance: Instance) -> None:
        """Give the instance its own copy of the template."""
        if template is None:
            shutil.rmtree(instance.folder, ignore_errors=True)
            instance.own(instance.folder)
            return
        await copy_template(template, instance, self.host)

    def close(self) -> list[str]:
        """Undo everything that is still open; gives what could not be."""
        return self.undo.undo_all()


async def open_workbench(
    settings: Settings, experiment: Experiment, study: str, study_path: Path, say: Say
) -> Workbench:
    """Fetch what the study needs and make its folders. On any failure nothing is left behind."""
    _raise_open_files()
    undo = UndoJournal.begin(settings.undo, study, study_path)
    try:
        undo.will_change("processes", cookie=study)
        scratch = settings.data / "runs" / study
        undo.will_change("folder", path=str(scratch))
        scratch.mkdir(parents=True, exist_ok=True)
        sockets = Path(tempfile.gettempdir()) / f"mydyno-{os.getpid()}"
        undo.will_change("folder", path=str(sockets))
        shutil.rmtree(sockets, ignore_errors=True)
        sockets.mkdir(mode=0o700)
        if settings.server_user is not None:
            entry = pwd.getpwnam(settings.server_user)
            os.chown(sockets, entry.pw_uid, entry.pw_gid)
        host = LocalHost(study, settings.server_user, undo)
        check_variables(await present_builds(experiment, settings, host), experiment)
        builds = await get_builds(experiment, settings, host, say)
        check_variables(builds, experiment)
        drivers, versions = await get_drivers(experiment, settings, host, say)
        for build in builds.values():
            versions |= build.packages
        versions["server"] = builds[experiment.control].version.text
        for arm in experiment.arms:
            for treatment in treatments_of(arm):
                versions |= await treatment.get(settings.cache, host)
        return Workbench(settings, experiment, host, undo, builds, drivers, scratch, sockets, versions)
    except BaseException:
        undo.undo_all()
        raise


async def get_drivers(
    experiment: Experiment, settings: Settings, host: LocalHost, say: Say
) -> tuple[dict[str, Driver], dict[str, str]]:
    """The drivers that the steps name, ready to be used, and their versions. Raises HostError."""
    drivers: dict[str, Driver] = {}
    stored = [STORING_DRIVER] if kind_of(experiment.data).store_s is not None else []
    for name in dict.fromkeys([*(step.driver for step in experiment.steps), *stored]):
        say(f"getting the driver {name}")
        drivers[name] = DRIVERS[name]()
        await drivers[name].get(settings, host)
    return drivers, {name: driver.version for name, driver in drivers.items()}


def _raise_open_files() -> None:
    """As many open files as this user may have: every connection and table costs the server one."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
