"""The study environment of one study: build, drivers, allocators and templates, and the undo journal it works by."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from mydyno.drivers.base import SCHEMA, Driver
from mydyno.drivers.catalogue import DRIVERS
from mydyno.errors import StudyError
from mydyno.execution.counters.programs import BpftraceCounter, KernelCounter, PerfProfiler, Profiler, StartCounting
from mydyno.execution.counters.task_profiler import TaskProfiler
from mydyno.execution.environments.builds import (
    base_variables,
    check_values,
    check_variables,
    get_builds,
    present_builds,
)
from mydyno.execution.environments.environment import Say, StudyEnvironment, make_folders
from mydyno.execution.environments.probe import Probe, Sampler, SamplerWithClients
from mydyno.files.atomic import sha256_of
from mydyno.hosts.commands import protect
from mydyno.hosts.limits import set_open_files
from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.load_end import LoadPath, PortShaping
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.server_user import end_processes
from mydyno.hosts.tracing.perf import perf_obstacle
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.experiment import ArmSpec, Experiment, Scalar
from mydyno.model.stored.records import Evidence
from mydyno.packages.progress import silent
from mydyno.servers.build import ServerBuild
from mydyno.servers.my_cnf import adapt_variables
from mydyno.servers.running.base import LOAD_USER, WHOLE_HOST, CpuSlot, InstanceSettings, RunningServer
from mydyno.servers.running.memcached import MemcachedServer
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.running.private import Credentials, PrivateServer, as_private
from mydyno.servers.statistics import analyze, read_file, set_statistics
from mydyno.servers.templates import (
    Template,
    build_template,
    copy_template,
    present_template,
    shaping_variables,
    template_key,
)
from mydyno.servers.wait_counting import WaitCounting, start_variables, stop_counting
from mydyno.treatments.catalogue import treatments_of
from mydyno.workloads.data import kind_of

LOGGER = logging.getLogger("mydyno.execution")
STORING_DRIVER = "dynoload"
"""Stores the keys before a run's first step, whichever driver loads."""


@dataclass
class PrivateEnvironment(StudyEnvironment):
    """What all runs of a study on mydyno's own servers share. Use open_private_environment() and close()."""

    builds: dict[str, ServerBuild]
    """Arm → its server; the same for all, except where the server itself is the treatment."""
    credentials: Credentials = field(default_factory=Credentials)
    say: Say = silent
    restores_data: bool = field(default=True, kw_only=True)
    """By a copy of the template."""
    _unprepared: dict[str, Template] = field(default_factory=dict, init=False)
    """Templates that could not be made, by key."""

    def __post_init__(self) -> None:
        for password in (self.credentials.control, self.credentials.load):
            protect(password)

    def instance(
        self, folder: Path, log: Path, number: int = 1, cpu_slot: CpuSlot = WHOLE_HOST, arm: str | None = None
    ) -> PrivateServer:
        """A server of this study, not yet started: the arm's, or the control's until a treatment sets another.

        `number` counts from 1 inside a run.
        """
        build = self.builds[arm or self.experiment.control]
        kind: type[PrivateServer] = MysqldServer if build.version.has_sql else MemcachedServer
        settings = InstanceSettings(base=base_variables(self.experiment))
        if self.experiment.profile.waits:
            settings.base = {**start_variables(build.version), **settings.base}
        made = kind(build, self.host, folder, self.sockets, log, self.credentials, settings, number, cpu_slot=cpu_slot)
        made.say = self.say
        if self.clients is not None:
            made.listen = self.clients.address
            made.load_path = self.load_path
            if self.experiment.data.workload != "kv":
                made.ensure_client_path()
        return made

    @cached_property
    def load_path(self) -> LoadPath | None:
        """The network to the hosts of the load; None: the load runs here."""
        if self.clients is None:
            return None
        return LoadPath(self.clients.address, self.clients.ends, PortShaping(self.undo))

    async def rehearse(self, say: Say) -> list[Evidence]:
        """Try each different treatment once that can be tried without a server. Raises HostError if one fails."""
        found: list[Evidence] = []
        tried = set()
        for arm in self.experiment.arms:
            for treatment in self.treatments(arm):
                key = (treatment.name, repr(arm.treatments[treatment.name]))
                if key in tried:
                    continue
                tried.add(key)
                evidence = await treatment.rehearse(self.host, self.scratch)
                if self.load_path is not None:
                    await treatment.rehearse_apart(self.load_path)
                if evidence is not None:
                    say(f"{treatment.name} of {arm.name} tried: {evidence.text}")
                    found.append(evidence)
        return found

    async def template(self, arm: ArmSpec, say: Say) -> Template | None:
        """The arm's prepared data; created now if no study created it before. None: its server keeps none.

        Where the arm's own settings or server prevent it, the arm fails and not the study: each copy fails then.
        """
        build = self.builds[arm.name]
        if not build.version.has_sql:
            return None
        key, shaping = self._template_of(arm)
        root = self.paths.data / "templates"
        found = self._unprepared.get(key) or present_template(root, key)
        if found is not None:
            LOGGER.debug("the data of arm %s are prepared already: %s", arm.name, found.folder)
            return found
        data = self.experiment.data
        said = f", optimizer statistics of {Path(data.statistics).name}" if data.statistics else ""
        say(f"preparing data once: {kind_of(data).words(data)} on {build.version.name}{said}")
        folder = root / f".{key}.new"
        number = self.undo.will_change("folder", path=str(folder))
        log = self.scratch / "template.log"
        settings = InstanceSettings(base=base_variables(self.experiment), variables=shaping)
        instance = MysqldServer(build, self.host, folder, self.sockets, log, self.credentials, settings)
        instance.say = say
        try:
            template = await build_template(root, key, instance, self._fill)
        except StudyError as error:
            if key == self._template_of(self.experiment.arm(self.experiment.control))[0]:
                raise
            template = Template(root / key, 0, failure=error.message)
            self._unprepared[key] = template
            say(f"arm {arm.name}: its data cannot be prepared: {error.message}")
        self.undo.undone(number)
        return template

    def _template_of(self, arm: ArmSpec) -> tuple[str, dict[str, Scalar]]:
        """The key of the arm's template, and the variables that shape it."""
        build, data = self.builds[arm.name], self.experiment.data
        base = adapt_variables(base_variables(self.experiment), build.version, build.variables).variables
        shaping = shaping_variables({**base, **arm.treatments.get("variables", {})})
        kind = kind_of(data)
        facts = data.model_dump(include=set(kind.own_keys))
        if data.statistics is not None:
            facts["statistics"] = sha256_of(Path(data.statistics))
        return template_key(build, shaping, f"{data.workload}-{kind.short(data)}", facts), shaping

    async def _fill(self, running: MysqldServer) -> None:
        """Load the experiment's data into a server that has none."""
        data = self.experiment.data
        kind, driver = kind_of(data), self.drivers[self.experiment.resolved_steps[0].driver]
        if kind.schema_sql is not None:
            async with running.control() as control:
                for statement in kind.schema_sql(data):
                    await control.rows(statement)
            return
        async with running.control() as control:
            # For the functions and triggers of a dump, where the binary log is on; this server ends with its data.
            await control.rows("SET GLOBAL log_bin_trust_function_creators = 1")
            await driver.prepare(running.address(LOAD_USER), data, self.sockets, self.scratch / "prepare.log")
        async with running.control(unbounded=True) as control:
            await analyze(control, SCHEMA)
            if data.statistics is not None:
                for words in await set_statistics(control, SCHEMA, read_file(Path(data.statistics))):
                    running.say(f"data.statistics: {words}")

    def probe(self, instances: Sequence[RunningServer], *, speed_meter: bool = False) -> Sampler:
        """The sampler of one run, not yet started."""
        program = self.paths.program("dynoprobe")
        own = Probe.of_servers(program, instances, self.scratch, self.sockets, speed_meter=speed_meter)
        return own if self.clients is None else SamplerWithClients(own, self.clients.samplers())

    def profiler(self) -> Profiler | None:
        """perf, or the sampler of /proc where perf is missing, where the experiment sets profile.cpu."""
        profile = self.experiment.profile
        if not profile.cpu:
            return None
        if perf_obstacle(self.paths.root) is not None:
            return TaskProfiler(profile.frequency)
        return PerfProfiler(self.host, self.scratch, profile.frequency)

    def wait_counter(self) -> StartCounting | None:
        """performance_schema, where the experiment sets profile.waits."""
        return WaitCounting if self.experiment.profile.waits else None

    def kernel_counter(self) -> KernelCounter | None:
        """bpftrace, where the experiment sets profile.kernel."""
        return BpftraceCounter(self.host, self.scratch) if self.experiment.profile.kernel else None

    async def prewarm(self, instance: RunningServer) -> None:
        """Read all data once, so that no run begins colder than another; store first what no template can hold.

        Keys are stored by the load's own protocol: table and cache then hold what the policy puts there.
        """
        data = self.experiment.data
        kind = kind_of(data)
        if kind.store_s is not None:
            driver, address = self.drivers[STORING_DRIVER], instance.address(LOAD_USER)
            async with instance.relaxed_durability():
                await driver.prepare(address, data, self.sockets, self.scratch / "prepare.log")
        if data.prewarm:
            await instance.prewarm(kind.prewarm_sql(data))
        if self.experiment.profile.waits:
            await stop_counting(instance)

    async def restore(self, template: Template | None, instance: RunningServer) -> None:
        """Give the instance its own copy of the template."""
        if template is None:
            as_private(instance).make_anew()
            return
        await copy_template(template, as_private(instance), self.host)

    def close(self) -> list[str]:
        """Undo everything that is still open; returns what could not be."""
        end_processes(self.host.server_user)
        return super().close()


async def open_private_environment(
    paths: HostPaths, experiment: Experiment, study: str, study_path: Path, say: Say
) -> PrivateEnvironment:
    """Fetch what the study needs and make its folders. On any failure nothing is left behind."""
    set_open_files()
    undo = UndoJournal.begin(paths.undo, study, study_path, paths.root)
    try:
        undo.will_change("processes", cookie=study)
        scratch, sockets = make_folders(paths, study, undo)
        host = LocalHost(study, paths.server_user, undo)
        await check_variables(await present_builds(experiment, paths, host), experiment, host)
        builds = await get_builds(experiment, paths, host, say)
        await check_variables(builds, experiment, host)
        for words in await check_values(builds, experiment, host):
            say(words)
        drivers, versions = await get_drivers(experiment, paths, host, say)
        for build in builds.values():
            versions |= build.packages
        versions |= {
            f"build of {arm}": f"commit {build.compiled.commit}, recipe {build.compiled.recipe[:16]}"
            for arm, build in builds.items()
            if build.compiled is not None
        }
        versions["server"] = builds[experiment.control].version.text
        for arm in experiment.arms:
            for treatment in treatments_of(arm):
                versions |= await treatment.get(paths, host)
        return PrivateEnvironment(paths, experiment, host, undo, drivers, scratch, sockets, versions, builds, say=say)
    except BaseException:
        undo.undo_all()
        raise


async def get_drivers(
    experiment: Experiment, paths: HostPaths, host: LocalHost, say: Say
) -> tuple[dict[str, Driver], dict[str, str]]:
    """The drivers that the steps name, ready to be used, and their versions. Raises HostError."""
    drivers: dict[str, Driver] = {}
    stored = [STORING_DRIVER] if kind_of(experiment.data).store_s is not None else []
    for name in dict.fromkeys([*(step.driver for step in experiment.steps), *stored]):
        say(f"getting the driver {name}")
        drivers[name] = DRIVERS[name]()
        await drivers[name].get(paths, host)
    return drivers, {name: driver.version for name, driver in drivers.items()}
