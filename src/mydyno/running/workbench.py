"""The workbench of one study: build, drivers, allocators and templates, and the undo journal it works by."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mydyno.drivers.base import Driver
from mydyno.drivers.catalogue import DRIVERS
from mydyno.errors import UserError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.settings import Settings
from mydyno.hosts.undo import UndoJournal
from mydyno.model.experiment import ArmSpec, Experiment, Scalar, steps_of
from mydyno.model.problems import Key, format_key, nearest
from mydyno.model.records import Evidence
from mydyno.running.bench import Say
from mydyno.running.probe import Probe
from mydyno.servers.build import ServerBuild, known_variables
from mydyno.servers.catalogue import get_build
from mydyno.servers.instance import ALONE, CONTROL_USER, LOAD_USER, Credentials, Instance, InstanceSettings, Place
from mydyno.servers.my_cnf import option_name
from mydyno.servers.templates import (
    Template,
    build_template,
    copy_template,
    present_template,
    shaping_variables,
    template_key,
)
from mydyno.treatments.base import Rehearsed
from mydyno.treatments.catalogue import treatments_of
from mydyno.workloads.data import kind_of

SPARE_CONNECTIONS = 16
"""Connections beside the load's: control, probe, and a person who looks."""


@dataclass
class Workbench:
    """What all runs of a study share. Use open_workbench() and close()."""

    settings: Settings
    experiment: Experiment
    host: LocalHost
    undo: UndoJournal
    build: ServerBuild
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

    def instance(self, folder: Path, log: Path, number: int = 1, place: Place = ALONE) -> Instance:
        """A server of this study, not yet started; `number` counts from 1 inside a run."""
        settings = InstanceSettings(variables=self.base_variables())
        return Instance(
            self.build, self.host, folder, self.sockets, log, self.credentials, settings, number, place=place
        )

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

    async def template(self, arm: ArmSpec, say: Say) -> Template:
        """The arm's prepared data; made now where no study made it before."""
        variables = {**self.base_variables(), **arm.treatments.get("variables", {})}
        shaping = shaping_variables(variables)
        data = self.experiment.data
        root = self.settings.data / "templates"
        kind = kind_of(data)
        facts = data.model_dump(include=set(kind.own_keys))
        key = template_key(self.build, shaping, f"{data.workload}-{kind.short(data)}", facts)
        found = present_template(root, key)
        if found is not None:
            return found
        say(f"preparing data once: {kind.words(data)} on {self.build.version.name}")
        folder = root / f".{key}.new"
        number = self.undo.will_change("folder", path=str(folder))
        log = self.scratch / "template.log"
        instance = self.instance(folder, log)
        instance.settings.variables.update(shaping)
        driver = self.drivers[steps_of(self.experiment)[0].driver]

        async def fill(running: Instance) -> None:
            await driver.prepare(running.address(LOAD_USER), data, self.sockets, self.scratch / "prepare.log")

        template = await build_template(root, key, instance, fill)
        self.undo.undone(number)
        return template

    def probe(self, instances: Sequence[Instance]) -> Probe:
        """The sampler of one run, not yet started."""
        targets = [f"{one.number}:{one.pid},socket={one.socket},user={CONTROL_USER}" for one in instances]
        instance = instances[0]
        program = self.settings.program("dynoprobe")
        return Probe(
            self.host, program, targets, instance.credentials.control, instance.data, self.scratch, self.sockets
        )

    async def prewarm(self, instance: Instance) -> None:
        """Read all data once, so that no run begins colder than another."""
        if self.experiment.data.prewarm:
            async with instance.control() as control:
                for statement in kind_of(self.experiment.data).prewarm_sql(self.experiment.data):
                    await control.rows(statement)

    async def restore(self, template: Template, instance: Instance) -> None:
        """Give the instance its own copy of the template."""
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
        say(f"getting the server {experiment.server.name or experiment.server.basedir}")
        build = await get_build(experiment.server, settings.cache, host)
        await check_variables(build, host, experiment)
        drivers, versions = await get_drivers(experiment, settings, host, say)
        versions |= {"server": build.version.text, **build.packages}
        for arm in experiment.arms:
            for treatment in treatments_of(arm):
                versions |= await treatment.get(settings.cache, host)
        return Workbench(settings, experiment, host, undo, build, drivers, scratch, sockets, versions)
    except BaseException:
        undo.undo_all()
        raise


async def get_drivers(
    experiment: Experiment, settings: Settings, host: LocalHost, say: Say
) -> tuple[dict[str, Driver], dict[str, str]]:
    """The drivers that the steps name, ready to be used, and their versions. Raises HostError."""
    drivers: dict[str, Driver] = {}
    for name in dict.fromkeys(step.driver for step in experiment.steps):
        say(f"getting the driver {name}")
        drivers[name] = DRIVERS[name]()
        await drivers[name].get(settings, host)
    return drivers, {name: driver.version for name, driver in drivers.items()}


async def check_variables(build: ServerBuild, host: LocalHost, experiment: Experiment) -> None:
    """Raise UserError for every variable that this server does not know, before it is started even once."""
    known = await known_variables(build, host)
    said: dict[Key, str] = {("server", "variables", name): name for name in experiment.server.variables}
    for arm in experiment.arms:
        said |= {("arms", arm.name, "variables", name): name for name in arm.treatments.get("variables", {})}
    problems = []
    for key, name in said.items():
        plain = option_name(name)
        if plain.startswith("loose_"):
            continue  # says itself that not every server knows it
        # An option's name may be cut short or carry a prefix (skip_, plugin_load_add): the server itself judges those.
        if known and plain not in known and not any(other.startswith(plain) for other in known):
            guess = nearest(plain, known)
            problems.append(f"{format_key(key)}: {build.version.name} has no variable {name!r}"
                            + (f"; did you mean {guess!r}?" if guess else ""))  # fmt: skip
    if problems:
        raise UserError("\n  ".join(problems))


def _raise_open_files() -> None:
    """As many open files as this user may have: every connection and table costs the server one."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
