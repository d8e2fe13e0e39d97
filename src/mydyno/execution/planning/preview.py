"""What a study would be on this host, with everything that can be checked before it: nothing is started or fetched.

What a study would set on a server that others use, and back to what: read from the server, nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mydyno.errors import HostError, ServerError, UserError
from mydyno.execution.environments.builds import check_values, check_variables, present_builds, unchecked_variables
from mydyno.execution.external_writes import load_writes, schemas_of
from mydyno.execution.planning.build_forecast import BuildForecast, forecast_builds
from mydyno.execution.planning.design_choice import plan_study
from mydyno.execution.planning.file_checks import with_files
from mydyno.execution.planning.forecast import Forecast, forecast
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.telemetry import unreadable_here, words_of
from mydyno.language import listing
from mydyno.model.definition.experiment import Experiment, ServerSpec
from mydyno.model.definition.plan import Plan
from mydyno.servers.dsn import place_of
from mydyno.servers.external_variables import reading
from mydyno.servers.my_cnf import option_value
from mydyno.servers.sql import Control
from mydyno.treatments.coexistence import switched_names, switched_variables
from mydyno.treatments.dsn import addresses_of, places_of
from mydyno.treatments.server import server_of
from mydyno.workloads.files import file_of

UNKNOWN_HERE = "and that of builds from source, which `mydyno plan` states: their commits are not looked up here"
"""Without `start_programs`."""
MOST_LETTERS = 40
"""Of a value that is printed; an optimizer_switch has hundreds."""


@dataclass(frozen=True)
class Preview:
    """The plan of a study and its forecast."""

    plan: Plan
    forecast: Forecast


async def preview(
    experiment: Experiment, paths: HostPaths, *, start_programs: bool = True, apart: bool = False
) -> Preview:
    """Plan and forecast. Raises UserError for an impossible design and for unknown variables.

    Variables are checked against the servers that are in the cache already; that `run` checks those of servers that it
    has to fetch first is a caution. A server of which nothing is known yet is started for that, with --version and
    --help, and the commit of a build is looked up with git. Without `start_programs` only servers of the catalogue are:
    the others may be anything. `apart`: the load comes from other hosts.
    """
    of_builds = BuildForecast()
    of_variables: tuple[str, ...] = ()
    if start_programs or all(_is_of_catalogue(server_of(arm, experiment.server)) for arm in experiment.arms):
        host = LocalHost("plan", paths.server_user)
        of_builds = await forecast_builds(experiment, paths.cache, host)
        builds = await present_builds(experiment, paths, host)
        await check_variables(builds, experiment, host)
        of_variables = (*await check_values(builds, experiment, host), *unchecked_variables(builds, experiment))
    elif any(server_of(arm, experiment.server).build is not None for arm in experiment.arms):
        of_builds = BuildForecast(time=(UNKNOWN_HERE,))
    plan = plan_study(experiment, paths)
    expected = forecast(experiment, plan, paths, apart=apart)
    expected = replace(expected, builds=of_builds, cautions=(*expected.cautions, *of_variables))
    if start_programs:
        expected = await with_external_changes(with_files(expected, experiment, paths), experiment)
        expected = planned_writes(expected, experiment, paths)
    if start_programs and (words := _unreadable(paths)):
        expected = replace(expected, cautions=(*expected.cautions, f"not sampled on this host: {words}"))
    return Preview(plan, expected)


def _unreadable(paths: HostPaths) -> str:
    try:
        return words_of(unreadable_here(paths))
    except HostError as error:
        return error.message


def _is_of_catalogue(spec: ServerSpec) -> bool:
    return spec.name is not None and spec.basedir is None and spec.build is None


async def with_external_changes(expected: Forecast, experiment: Experiment) -> Forecast:
    """The forecast with the present and the arms' values of each variable; an obstacle where they cannot be read."""
    settings = switched_variables(experiment)
    names = switched_names(experiment)
    if experiment.server.dsn is None or not names:
        return expected
    try:
        address = addresses_of(experiment.arm(experiment.control), experiment.server)[0]
        async with Control(address) as control:
            version = await control.scalar("SELECT VERSION()")
            (values,) = await control.rows(reading(names))
    except (ServerError, UserError) as error:
        return expected.with_obstacle(f"server.dsn: {error.message}")
    changes = []
    for name, now in zip(names, values, strict=True):
        of_arms = [f"{option_value(own[name])} ({arm})" for arm, own in settings.items() if name in own]
        former = f"{now}" if len(str(now)) <= MOST_LETTERS else "what it is"
        changes.append(f"{name} from {former} to {', '.join(of_arms)}")
    words = (
        f"on {place_of(experiment.server.dsn)} ({version}), before each slice: {'; '.join(changes)}; set back after "
        "each block, however the study ends, and by `mydyno clean` after kill -9; needs --allow-changes"
    )
    return replace(expected, host_changes=(words,))


def planned_writes(expected: Forecast, experiment: Experiment, paths: HostPaths) -> Forecast:
    """The forecast with what would be written to an external server, as changes; an obstacle where it must not be."""
    if experiment.server.dsn is None:
        return expected
    data = experiment.data
    places = listing(places_of(experiment))
    schemas = listing(schemas_of(experiment))
    lines = []
    if data.sql is not None:
        lines.append(f"where the schema {schemas} is empty, the data of {file_of(data).name} are loaded into it")
    try:
        lines += [one.words for one in load_writes(experiment, paths)]
    except UserError as error:
        return expected.with_obstacle(error.message)
    if not lines:
        return expected
    return expected.with_change(f"on {places}: {'; '.join(lines)}; needs --allow-writes")
