"""`mydyno plan EXPERIMENT`: the dry run. Runs in order, time, disk, and what it will change on this host."""

from __future__ import annotations

import asyncio

import typer

from mydyno.cli import arguments
from mydyno.cli.exit_codes import ExitCode
from mydyno.cli.output import print_json
from mydyno.experiments import load
from mydyno.hosts.local import LocalHost
from mydyno.hosts.settings import Settings
from mydyno.model.experiment import ArmSpec, Experiment, steps_of
from mydyno.model.plan import Plan, make_plan
from mydyno.model.quantities import format_bytes, format_duration
from mydyno.running.builds import check_variables, present_builds
from mydyno.running.forecast import Forecast, forecast
from mydyno.stats.power import minimum_blocks
from mydyno.workloads.data import kind_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="plan", help="Show what `run` would do here; starts nothing.")(plan)


def plan(
    experiment: arguments.Experiment,
    scale: arguments.Scale = None,
    settings: arguments.Settings = None,
    blocks: arguments.Blocks = None,
    data: arguments.Data = None,
    as_json: arguments.Json = False,
) -> None:
    """Print the plan; exit code 3 where this host cannot do it."""
    resolved, _ = load(experiment, scale, arguments.all_settings(settings, blocks))
    host = Settings.resolve(data)
    asyncio.run(_check_variables(resolved, host))
    made = make_plan(resolved)
    expected = forecast(resolved, made, host)
    if as_json:
        print_json({
            "experiment": resolved.model_dump(mode="json"),
            "plan": made.model_dump(mode="json", by_alias=True),
            "forecast": expected.__dict__,
        })  # fmt: skip
    else:
        _print(resolved, made, expected)
    if expected.obstacles:
        raise typer.Exit(ExitCode.HOST_CANNOT)


async def _check_variables(experiment: Experiment, settings: Settings) -> None:
    """Against the servers that are in the cache already; `run` asks those that it has to fetch first."""
    builds = await present_builds(experiment, settings, LocalHost("plan", settings.server_user))
    check_variables(builds, experiment)


def _print(experiment: Experiment, plan: Plan, expected: Forecast) -> None:
    server = experiment.server
    print(f"{experiment.name} ({experiment.scale}): {experiment.question}\n")
    print(f"server    {server.name or server.basedir or f'external, {server.dsn}'}")
    for name, value in server.variables.items():
        print(f"          {name} = {value}")
    data = experiment.data
    size = format_bytes(expected.data_bytes)
    print(f"data      {data.workload}: {kind_of(data).words(data)}, about {size}")
    print(f"arms      {', '.join(_arm_words(experiment, arm) for arm in experiment.arms)}")
    for step in steps_of(experiment):
        warmup, measure = format_duration(step.warmup_s), format_duration(step.measure_s)
        options = "".join(f", {name} = {value}" for name, value in step.options.items())
        print(f"step      {step.id}: {step.driver}, warm-up {warmup}, measure {measure}{options}")
    blocks = experiment.design.blocks
    print(f"\nruns      {expected.runs} in {blocks} blocks, each with a second copy of the control (A/A):")
    for block in plan.blocks:
        runs = "  ".join(run.arm + ("′" if run.copy_number == 2 else "") for run in block.runs)
        print(f"  block {block.block:>2}  {runs}")
    print(f"\ntime      about {format_duration(expected.study_s)} ({format_duration(expected.run_s)} a run)")
    print(f"          and {format_duration(expected.prepare_s)} to prepare the data, once")
    disk = format_bytes(expected.disk_bytes)
    study = format_bytes(expected.study_bytes)
    print(f"disk      {disk} while it runs (kept: the template, {size}), {study} for the study;")
    print(f"          {format_bytes(expected.free_bytes)} are free")
    nothing = "nothing on this host beyond own processes and files in the cache"
    print(f"changes   {'; '.join(expected.host_changes) or nothing}")
    contrasts = len(steps_of(experiment)) * sum(len(arms) for arms in experiment.contrasts().values())
    fewest = minimum_blocks(max(1, contrasts))
    if blocks < fewest:
        print(f"note      {blocks} blocks cannot show a difference in {contrasts} comparisons: {fewest} are needed")
    for caution in expected.cautions:
        print(f"note      {caution}")
    for obstacle in expected.obstacles:
        print(f"OBSTACLE  {obstacle}")


def _arm_words(experiment: Experiment, arm: ArmSpec) -> str:
    """An arm with what it says beside its treatments: control, own control, several instances."""
    words = ["control"] if arm.name == experiment.control else [f"against {arm.control}"] if arm.control else []
    if experiment.most_instances > 1:
        count = experiment.instances_of(arm)
        words.append(f"{count} instance{'' if count == 1 else 's'}")
    return arm.name + (f" ({', '.join(words)})" if words else "")
