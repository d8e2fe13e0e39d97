"""`mydyno plan EXPERIMENT`: the dry run. Runs in order, time, disk, and what it will change on this host."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import typer

from mydyno.cli import arguments
from mydyno.cli.batch_job import batch_job
from mydyno.cli.exit_codes import ExitCode
from mydyno.cli.experiments import load_for_study
from mydyno.cli.output import print_json
from mydyno.cli.verbosity import set_verbosity
from mydyno.errors import UserError
from mydyno.execution.planning.forecast import Forecast, shared_host_caution
from mydyno.execution.planning.plan_text import plan_parts
from mydyno.execution.planning.preview import preview
from mydyno.fleet.groups import check_groups, parse_hosts
from mydyno.hosts.paths import HostPaths
from mydyno.language import agreed
from mydyno.model.definition.batch import BatchJob
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.host_groups import LOCAL, HostGroup
from mydyno.model.definition.plan import Plan


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="plan", help="Print what `run` would do on this host; starts nothing.")(plan)


def plan(
    experiment: arguments.Experiment,
    scale: arguments.Scale = None,
    settings: arguments.Overrides = None,
    blocks: arguments.Blocks = None,
    time: arguments.Time = None,
    profile: arguments.Profile = False,
    waits: arguments.Waits = False,
    kernel: arguments.Kernel = False,
    hosts: arguments.Hosts = None,
    on: arguments.On = None,
    on_options: arguments.OnOptions = None,
    studies: arguments.Studies = arguments.DEFAULT_STUDIES,
    data: arguments.Data = None,
    allow_writes: arguments.AllowWrites = False,
    allow_changes: arguments.AllowChanges = False,
    wait: arguments.Wait = False,
    serve: arguments.Serve = False,
    openmetrics: arguments.OpenMetrics = None,
    as_json: arguments.Json = False,
    verbose: arguments.Verbose = False,
) -> None:
    """Print the plan; exit code 3 where this host cannot do it. Takes every option of `run`."""
    del allow_writes, allow_changes, wait, serve, openmetrics  # of no effect on the plan
    set_verbosity(verbose)
    job = batch_job(on, on_options, hosts, time, data)
    resolved, _ = load_for_study(
        experiment, scale, arguments.all_settings(settings, blocks, time, profile, waits, kernel), fixed=job is not None
    )
    paths = HostPaths.resolve(data)
    if job is not None:
        _print_job(resolved, job, studies, paths, as_json)
        return
    groups = () if hosts is None else parse_hosts(hosts)
    apart = bool(groups) and all(group.clients for group in groups)
    previewed = asyncio.run(preview(resolved, paths, apart=apart))
    made = previewed.plan
    expected = _on_groups(previewed.forecast, resolved, groups, paths)
    if as_json:
        print_json({
            "experiment": resolved.model_dump(mode="json"),
            "plan": made.model_dump(mode="json", by_alias=True),
            "forecast": asdict(expected),
            "host_groups": [group.model_dump(mode="json") for group in groups],
        })  # fmt: skip
    else:
        _print(resolved, made, expected)
        _print_groups(groups)
    if expected.obstacles:
        raise typer.Exit(ExitCode.HOST_CANNOT)


def _print_job(experiment: Experiment, job: BatchJob, studies: Path, paths: HostPaths, as_json: bool) -> None:
    """The job alone: of the nodes that execute it nothing is known."""
    # What a study needs is slow to load.
    from mydyno.fleet.batch.study import SYSTEMS, planned

    made, planned_job = planned(experiment, job, paths)
    text = SYSTEMS[job.system](studies.resolve() / "STUDY", planned_job).text([block.block for block in made.blocks])
    if as_json:
        print_json({"plan": made.model_dump(mode="json", by_alias=True), "job": text})
    else:
        print(text, end="")


def _on_groups(expected: Forecast, experiment: Experiment, groups: Sequence[HostGroup], paths: HostPaths) -> Forecast:
    """The forecast for these groups: what they cannot do, and without the caution that server and load share a host."""
    if not groups:
        return expected
    obstacles: tuple[str, ...] = ()
    try:
        check_groups(experiment, groups)
    except UserError as error:
        obstacles = (error.message,)
    cautions = expected.cautions
    if all(group.clients for group in groups):
        cautions = tuple(one for one in cautions if one != shared_host_caution(experiment, paths.root))
    return replace(expected, obstacles=(*expected.obstacles, *obstacles), cautions=cautions)


def _print_groups(groups: Sequence[HostGroup]) -> None:
    for group in groups:
        server = group.server or LOCAL
        load = ", ".join(group.client_names)
        where = (
            f"server on {server}, load from {load} to {group.address or 'no address'}" if load else f"all on {server}"
        )
        print(f"hosts     {group.name}: {where}")


def _print(experiment: Experiment, plan: Plan, expected: Forecast) -> None:
    print(f"{experiment.name} ({experiment.scale}): {experiment.question}")
    for part in plan_parts(experiment, plan, expected):
        print()
        for entry in part:
            for label, line in zip((entry.label, *[""] * len(entry.lines)), entry.lines, strict=False):
                print(agreed(f"{label:<9} {line}"))
