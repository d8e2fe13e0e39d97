"""What a study would be on this host, with everything that can be checked before it: nothing is started or fetched."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mydyno.errors import HostError
from mydyno.execution.environments.builds import check_values, check_variables, present_builds, unchecked_variables
from mydyno.execution.planning.build_forecast import BuildForecast, forecast_builds
from mydyno.execution.planning.design_choice import plan_study
from mydyno.execution.planning.external_changes import planned_writes, with_external_changes
from mydyno.execution.planning.file_checks import with_files
from mydyno.execution.planning.forecast import Forecast, forecast
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.telemetry import unreadable_here, words_of
from mydyno.model.definition.experiment import Experiment, ServerSpec
from mydyno.model.definition.plan import Plan
from mydyno.treatments.server import server_of

UNKNOWN_HERE = "and that of builds from source, which `mydyno plan` states: their commits are not looked up here"
"""Without `start_programs`."""


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
