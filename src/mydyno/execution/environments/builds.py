"""The servers of a study's arms, and whether each knows the variables that are set for it; and what those that are
built from source add to a plan: how each is built, and the time and disk of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from mydyno.errors import UserError
from mydyno.execution.environments.environment import Say
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ArmSpec, Experiment, Scalar
from mydyno.model.definition.plan import lanes_of_block
from mydyno.model.definition.problems import Key, format_key, with_guess
from mydyno.model.definition.quantities import format_bytes, format_duration
from mydyno.model.definition.server_options import inside, loading_plugins, option_name, plain_name, variables_of
from mydyno.model.definition.source_build import BuildSpec
from mydyno.servers.build import ServerBuild
from mydyno.servers.catalogue import get_alternating, present_build
from mydyno.servers.compiled.compile import PlannedBuild, builds_folder, planned_builds, read_builds
from mydyno.servers.compiled.record import BuildRecord, Toolchain
from mydyno.servers.compiled.source import Source, work_folder
from mydyno.servers.my_cnf import adapt_variables, is_known, is_unshown, option_value, removed_in
from mydyno.servers.option_file import (
    OptionValues,
    changed_by_server,
    is_of_servers,
    option_values,
    options_of,
    read_option_file,
)
from mydyno.servers.templates import folder_bytes
from mydyno.servers.wait_counting import start_variables
from mydyno.treatments.coexistence import is_switched
from mydyno.treatments.server import server_of

OF_THE_START = ("max_connections", "open_files_limit", "table_open_cache", "table_cache", "table_definition_cache")
"""Variables that a server adapts to the files that it may open, which differs here; they are read back later."""
SIZED_AT_START = ("back_log", "host_cache_size", "innodb_open_files", "log_bin", "thread_cache_size")
"""Variables whose default a server finds at its start, after it has listed its options."""
LIKE_A_TYPO = 0.85
"""How alike the name of another variable must be to have been meant: many begin alike."""
SPARE_CONNECTIONS = 16
NO_VALUE = "(No default value)"
HINT = "mysqld --verbose --help lists them; a plugin's variable needs plugin_load_add, or the prefix loose_"


def base_variables(experiment: Experiment) -> dict[str, Scalar]:
    """[server.variables], and max_connections for the load if the experiment does not set it.

    MariaDB clips thread_cache_size to max_connections.
    """
    specified = {option_name(name): value for name, value in experiment.server.variables.items()}
    cached = [of["thread_cache_size"] for of in (specified, *map(variables_of, experiment.arms))
              if str(of.get("thread_cache_size", "")).isdigit()]  # fmt: skip
    connections = max(step.connections for step in experiment.resolved_steps)
    connections *= lanes_of_block(experiment) if is_switched(experiment) else 1
    room: dict[str, Scalar] = {
        "max_connections": max(151, connections + SPARE_CONNECTIONS, *map(int, cached)),
        "max_prepared_stmt_count": 1_048_576,
    }
    return {**room, **specified}


async def get_builds(experiment: Experiment, paths: HostPaths, host: LocalHost, say: Say) -> dict[str, ServerBuild]:
    """Every arm's server. Raises UserError and HostError."""
    builds = {}
    for arm in experiment.arms:
        spec = server_of(arm, experiment.server)
        if arm is experiment.arms[0] or "server" in arm.treatments:
            say(f"getting the server {spec.title}")
        builds[arm.name] = (await get_alternating(spec, paths.cache, host, say))[0]
    return builds


async def present_builds(experiment: Experiment, paths: HostPaths, host: LocalHost) -> dict[str, ServerBuild]:
    """The arms' servers that are on this host already; nothing is fetched or unpacked. Raises UserError."""
    found = {}
    for arm in experiment.arms:
        build = await present_build(server_of(arm, experiment.server), paths.cache, host)
        if build is not None:
            found[arm.name] = build
    return found


async def check_variables(builds: Mapping[str, ServerBuild], experiment: Experiment, host: LocalHost) -> None:
    """Raise UserError for every variable that its server does not know, before one is started even once.

    What the experiment says for all servers must be known to at least one of them; the others omit it and report that.
    Where not every arm's server is at hand, only what the arms say of those that are is checked. An option that the
    server's version removed and ignores is not refused.
    """
    complete = all(arm.name in builds for arm in experiment.arms)
    problems = await _of_all_servers(builds, experiment, host) if complete else []
    unknown: dict[tuple[str, str], list[str]] = {}
    of_arms = {arm.name: arm.treatments.get("variables", {}) for arm in experiment.arms}
    for arm, build in builds.items():
        if not build.version.has_sql:
            continue  # forecast refuses variables of a memcached
        for option in of_arms[arm]:
            loading = loading_plugins({**experiment.server.variables, **of_arms[arm]})
            if await _refused({option_name(option): of_arms[arm][option]}, build, host, loading):
                unknown.setdefault((option, build.identity), []).append(arm)
    for (option, _), arms in unknown.items():
        place = _place(experiment, ("arms", arms[0], "variables", option))
        if len(arms) > 1:
            place = f"variables.{option} (arms {', '.join(arms)})"
        problems.append(_no_variable(place, option, [builds[arms[0]]]))
    if problems:
        raise UserError("\n  ".join(problems), HINT)


def unchecked_variables(builds: Mapping[str, ServerBuild], experiment: Experiment) -> Iterator[str]:
    """A sentence for each server that is not at hand, so that the variables of its arms cannot be checked yet."""
    missing: dict[tuple[str, str | None], list[str]] = {}
    for arm in experiment.arms:
        spec = server_of(arm, experiment.server)
        if arm.name not in builds and spec.dsn is None and (experiment.server.variables or variables_of(arm)):
            missing.setdefault((spec.title, spec.name), []).append(arm.name)
    for (title, name), arms in missing.items():
        of_arms = f"arm{'' if len(arms) == 1 else 's'} {', '.join(arms)}"
        now = f"; to check them now: mydyno servers install {name}, then plan again" if name else ""
        yield (
            f"server variables of {of_arms} are not checked yet, because {title} is not in the cache: run gets it and "
            f"checks them before it starts a server{now}"
        )


async def check_values(builds: Mapping[str, ServerBuild], experiment: Experiment, host: LocalHost) -> tuple[str, ...]:
    """Raise UserError for every value that a server refuses, clips or ignores, as its own option parser reads them.

    An arm whose options are all ignored is refused too. Returns a sentence for each option that its server omits,
    ignores or does not show, and for each arm that sets what its control has in effect without it.
    """
    problems: dict[str, str] = {}
    notes: dict[str, None] = {}
    cached: dict[tuple[str, str], OptionValues] = {}
    read: dict[str, OptionValues] = {}
    base = {option_name(name): value for name, value in experiment.server.variables.items()}
    connections = {"max_connections": base_variables(experiment)["max_connections"]}  # bounds other values
    for arm in experiment.arms:
        build = builds.get(arm.name)
        if build is None or not build.variables:
            continue
        own = variables_of(arm)
        adapted = adapt_variables(base, build.version, build.variables)
        named = adapt_variables(base, build.version).notes  # by the forecast, which asks no program
        notes |= dict.fromkeys(words for words in adapted.notes if words not in named)
        wanted = adapted.variables | own
        key = (build.identity, repr(sorted(wanted.items())))
        if key not in cached:
            room = connections if is_known("max_connections", build.variables) else {}
            cached[key] = await option_values(build, host, room | wanted)
        read[arm.name] = cached[key]
        ignored = ignored_options(wanted, cached[key], build)
        notes |= dict.fromkeys(ignored.values())
        if own and own.keys() <= ignored.keys():
            problems.setdefault(arm.name, f"arms.{arm.name}.variables: {', '.join(ignored[name] for name in own)}")
        if unshown := [name for name in own if name not in ignored and is_unshown(name, build.version)]:
            notes[f"arm {arm.name}: no variable of the server shows {', '.join(unshown)}: set, but not proved"] = None
        for name, words in value_problems(wanted, cached[key], build) if wanted else ():
            section: Key = ("arms", arm.name, "variables") if name in own or not name else ("server", "variables")
            said = format_key(section)
            if name:
                known_as = name if name in base | own else name.removeprefix("loose_")
                said = f"{_place(experiment, (*section, known_as))} = {option_value(wanted[name])}"
            problems.setdefault(f"{name}: {words}", f"{said}: {words}")
    if problems:
        raise UserError("\n  ".join(problems.values()), "a server's own limits are in its manual; nothing was started")
    return (*notes, *_in_effect_anyway(builds, experiment, read))


def ignored_options(wanted: Mapping[str, Scalar], read: OptionValues, build: ServerBuild) -> dict[str, str]:
    """Option → why it has no effect, of those that the server ignores."""
    found = {}
    for name in wanted:
        plain = name.removeprefix("loose_")
        if plain_name(name) in read.removed:
            found[name] = f"{build.version.name} removed {plain}, and ignores it"
        elif not (plain == name or plain in read.values or is_known(plain, build.variables)):
            found[name] = f"{build.version.name} does not have {plain}, and ignores {name}"
    return found


def _in_effect_anyway(
    builds: Mapping[str, ServerBuild], experiment: Experiment, read: Mapping[str, OptionValues]
) -> Iterator[str]:
    for arm in experiment.arms:
        control = experiment.arm(arm.control or experiment.control)
        if control is arm or arm.name not in read or control.name not in read:
            continue
        if builds[arm.name].identity != builds[control.name].identity:
            continue  # which defaults the two have is what is compared
        own, others = variables_of(arm), variables_of(control)
        differing = [name for name in own if name not in others or own[name] != others[name]]
        shown = {name: (_listed(name, read[arm.name]), _listed(name, read[control.name])) for name in differing}
        version = builds[arm.name].version
        of_mydyno = {*version.quiet_variables, *(start_variables(version) if experiment.profile.waits else ())}
        same = [name for name, (a, b) in shown.items() if a is not None and a == b and name not in of_mydyno]
        if not same:
            continue
        settings = ", ".join(f"{name} = {option_value(own[name])}" for name in same)
        rest = [{**one.treatments, "variables": {}} for one in (arm, control)]
        if same == differing and others.keys() <= own.keys() and rest[0] == rest[1]:
            yield f"arm {arm.name} equals the control {control.name}, which has {settings} in effect too"
        else:
            yield f"arm {arm.name}: the control {control.name} has {settings} in effect too"


def _listed(name: str, read: OptionValues) -> str | None:
    """An option's value as the server's parser lists it; None where the list does not say what a server will use."""
    plain = plain_name(name)
    if name != plain.removeprefix("loose_") and name.startswith(("skip_", "disable_")):
        return None
    value = read.values.get(plain)
    return None if plain in (*OF_THE_START, *SIZED_AT_START) or value == NO_VALUE else value


def value_problems(wanted: Mapping[str, Scalar], read: OptionValues, build: ServerBuild) -> Iterator[tuple[str, str]]:
    """(option, what is wrong with its value) of what was wanted and what the server's parser made of it."""
    refused: dict[str, str] = {}
    for error in read.errors:
        words = option_name(error)
        named = [name for name in wanted if plain_name(name) in words]
        refused.setdefault(max(named, key=len, default=""), f"{build.version.name} refuses it: {error.strip()}")
    if len(refused) > 1:
        refused.pop("", None)  # what followed from the others
    yield from refused.items()
    for name, value in wanted.items():
        made = read.values.get(plain_name(name) if name not in read.values else name)
        if read.errors or made is None or name in OF_THE_START or name.startswith(("skip_", "disable_")):
            continue
        if changed_by_server(option_value(value), made):
            yield name, f"{build.version.name} would make it {made}"


async def _of_all_servers(builds: Mapping[str, ServerBuild], experiment: Experiment, host: LocalHost) -> list[str]:
    databases = [build for build in builds.values() if build.version.has_sql]
    base = {option_name(name): name for name in experiment.server.variables}
    values = {name: experiment.server.variables[option] for name, option in base.items()}
    unknown = [
        set(await _refused(adapt_variables(values, build.version).variables, build, host, loading_plugins(values)))
        for build in databases
    ]
    names = sorted(set.intersection(*unknown) & set(base)) if unknown else []
    return [
        _no_variable(_place(experiment, ("server", "variables", base[name])), base[name], databases) for name in names
    ]  # fmt: skip


def _place(experiment: Experiment, key: Key) -> str:
    """The key of a variable; of one from an option file also its line, where that file is as it was read."""
    table = experiment.server if key[0] == "server" else experiment.arm(str(key[1]))
    option, variables = option_name(str(key[-1])), experiment.server.variables
    if isinstance(table, ArmSpec):
        variables = table.treatments.get("variables", {})
    line = None
    if table.option_file:
        with suppress(UserError):
            lines = read_option_file(Path(table.option_file))
            line = options_of(lines, {one.section for one in lines if is_of_servers(one.section)}).get(option)
    if line is None or variables.get(str(key[-1])) != inside(option, line.value):
        return format_key(key)
    return f"{line.place}: {format_key(key)}"


async def _refused(
    variables: Mapping[str, Scalar], build: ServerBuild, host: LocalHost, loading: Mapping[str, Scalar]
) -> list[str]:
    """The options that the server does not list, nor takes with these plugins (one that forces a plugin is in no list),
    nor, with a warning, ignores as removed.
    """
    found = []
    for name, value in variables.items():
        if not build.variables or is_known(name, build.variables):
            continue
        read = await option_values(build, host, {**loading, name: value})
        if plain_name(name) not in read.removed and (read.errors or not loading):
            found.append(name)
    return found


def _no_variable(place: str, option: str, builds: list[ServerBuild]) -> str:
    servers = ", ".join(dict.fromkeys(build.version.name for build in builds))
    removed = [removed_in(option_name(option), build.version) for build in builds]
    if words := ", ".join(dict.fromkeys(filter(None, removed))):
        return f"{place}: {servers} has no variable {option!r}: removed in {words}"
    known = frozenset().union(*(build.variables for build in builds))
    return with_guess(f"{place}: {servers} has no variable {option!r}", option_name(option), known, LIKE_A_TYPO)


@dataclass(frozen=True)
class BuildForecast:
    """Lines of a plan; none where nothing is built from source."""

    builds: tuple[str, ...] = ()
    """Which builds are in the cache, and which will be made, where and how."""
    time: tuple[str, ...] = ()
    disk: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Wanted:
    """What one build specification needs. `source` is None while its commit is not known, and `builds` empty."""

    spec: BuildSpec
    source: Source | None
    toolchain: Toolchain
    builds: Sequence[PlannedBuild]

    @property
    def words(self) -> str:
        """The source with its commit, as far as that is known."""
        if self.source is None or self.source.is_folder:
            return self.spec.words
        return f"{self.spec.words} ({self.source.short} {self.source.subject})"

    @property
    def missing(self) -> int:
        """Builds to be made; of a commit that is not known all of them, at most."""
        return self.spec.builds if self.source is None else sum(one.record is None for one in self.builds)


async def forecast_builds(experiment: Experiment, cache: Path, host: LocalHost) -> BuildForecast:
    """What the study needs of builds from source; nothing is fetched or built.

    Raises UserError for a source or commit that is not there, HostError without a compiler.
    """
    specs = [server_of(arm, experiment.server).build for arm in experiment.arms]
    different = [spec for number, spec in enumerate(specs) if spec is not None and spec not in specs[:number]]
    wanted = [_Wanted(spec, *await planned_builds(spec, cache, host)) for spec in different]
    if not wanted:
        return BuildForecast()
    lasts = _last_builds(cache)
    how = dict.fromkeys(line for one in wanted for line in _how(one, cache))
    return BuildForecast(tuple(how), tuple(_time(wanted, lasts)), tuple(_disk(wanted, lasts, cache)))


def _how(wanted: _Wanted, cache: Path) -> Iterator[str]:
    spec = wanted.spec
    if wanted.source is None:
        yield f"{spec.words}: the repository is fetched first, then built below {builds_folder(cache)}"
    for build in wanted.builds:
        what = wanted.words + (f", build {build.layout}" if spec.builds > 1 else "")
        if build.record is not None:
            yield f"{what}: in the cache, {build.folder.name}"
        else:
            yield f"{what}: will be built with {wanted.toolchain.words} into {build.folder}"
    if wanted.missing:
        command, most = (spec.command or "").strip(), format_duration(spec.timeout)
        # Below the columns of the plan.
        shown = f"these commands (at most {most}):\n{indent(command, ' ' * 12)}" if "\n" in command else ""
        yield f"by {shown or f'{command} (at most {most})'}"


def _last_builds(cache: Path) -> dict[str, BuildRecord]:
    """{command: its last build on this host}."""
    records = sorted(read_builds(cache).values(), key=lambda one: one.built_unix_ns)
    return {record.command: record for record in records}


def _time(wanted: Sequence[_Wanted], lasts: dict[str, BuildRecord]) -> Iterator[str]:
    missing = [one for one in wanted if one.missing]
    for command in dict.fromkeys(one.spec.command or "" for one in missing):
        these = [one for one in missing if one.spec.command == command]
        names = ", ".join(dict.fromkeys(one.spec.words for one in these))
        count = sum(one.missing for one in these)
        what = f"{_builds(count)} of {names}, once"
        if (last := lasts.get(command)) is not None:
            whole = format_duration(count * max(1.0, last.took_s))
            yield f"and about {whole} for {what}: the last build by this command took {format_duration(last.took_s)}"
        else:
            timeout = format_duration(max(one.spec.timeout for one in these))
            why = f"the cache has no build by this command; timeout of a build: {timeout}"
            yield f"and an unknown time for {what}: {why}"


def _disk(wanted: Sequence[_Wanted], lasts: dict[str, BuildRecord], cache: Path) -> Iterator[str]:
    present = {build.folder for one in wanted for build in one.builds if build.record is not None}
    words = [f"{format_bytes(sum(map(folder_bytes, present)))} in the cache ({len(present)})"] if present else []
    known = [one for one in wanted if one.missing and one.spec.command in lasts]
    if more := sum(one.missing * lasts[one.spec.command or ""].size_bytes for one in known):
        words.append(f"about {format_bytes(more)} more for {sum(one.missing for one in known)} to be made")
    if unknown := sum(one.missing for one in wanted if one not in known):
        words.append(f"{unknown} to be made, size unknown")
    yield f"builds: {'; '.join(words)}"
    folders = {work_folder(cache, one.spec) for one in wanted}
    there = [folder for folder in folders if folder.is_dir()]
    sources = [f"{format_bytes(sum(map(folder_bytes, there)))} in the cache"] if there else []
    if absent := len(folders) - len(there):
        sources.append(f"{absent} to be copied into the cache")
    yield f"sources: {'; '.join(sources)}"


def _builds(count: int) -> str:
    return "a build" if count == 1 else f"{count} builds"
