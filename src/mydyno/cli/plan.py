"""`mydyno plan EXPERIMENT`: the dry run. Runs in order, time, disk, and what it will change on this host."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import typer

from mydyno.cli import arguments
from mydyno.cli.exit_codes import ExitCode
from mydyno.cli.output import print_json
from mydyno.cli.verbosity import set_verbosity
from mydyno.errors import UserError
from mydyno.execution.builds import check_variables, present_builds
from mydyno.execution.design_choice import plan_study
from mydyno.execution.forecast import Forecast, forecast, shared_host_caution
from mydyno.execution.time_plan import cycles_of, plan_time, shape_of
from mydyno.experiments import load
from mydyno.fleet.groups import parse_hosts
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.experiment import ArmSpec, Experiment
from mydyno.model.host_groups import LOCAL, HostGroup
from mydyno.model.plan import Plan, PlannedBlock
from mydyno.model.quantities import format_bytes, format_duration
from mydyno.model.thresholds import limit_words
from mydyno.stats.looks import LOOKS
from mydyno.stats.power import minimum_blocks
from mydyno.stats.tost import FEWEST_BLOCKS
from mydyno.workloads.data import kind_of

MOST_SHOWN = 6
"""Blocks whose arms are printed; each has all of them, in random order."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="plan", help="Print what `run` would do on this host; starts nothing.")(plan)


def plan(
    experiment: arguments.Experiment,
    scale: arguments.Scale = None,
    settings: arguments.Overrides = None,
    blocks: arguments.Blocks = None,
    time: arguments.Time = None,
    hosts: arguments.Hosts = None,
    data: arguments.Data = None,
    as_json: arguments.Json = False,
    verbose: arguments.Verbose = False,
) -> None:
    """Print the plan; exit code 3 where this host cannot do it."""
    set_verbosity(verbose)
    resolved, _ = load(experiment, scale, arguments.all_settings(settings, blocks, time))
    paths = HostPaths.resolve(data)
    asyncio.run(_check_variables(resolved, paths))
    made = plan_study(resolved, paths)
    groups = () if hosts is None else parse_hosts(hosts)
    expected = _on_groups(forecast(resolved, made, paths), resolved, groups)
    if as_json:
        print_json({
            "experiment": resolved.model_dump(mode="json"),
            "plan": made.model_dump(mode="json", by_alias=True),
            "forecast": expected.__dict__,
            "host_groups": [group.model_dump(mode="json") for group in groups],
        })  # fmt: skip
    else:
        _print(resolved, made, expected)
        _print_groups(groups)
    if expected.obstacles:
        raise typer.Exit(ExitCode.HOST_CANNOT)


def _on_groups(expected: Forecast, experiment: Experiment, groups: Sequence[HostGroup]) -> Forecast:
    """The forecast for these groups: what they cannot do, and without the caution that server and load share a host."""
    if not groups:
        return expected
    # Dask takes half a second to load.
    from mydyno.fleet.controller import check_groups

    obstacles: tuple[str, ...] = ()
    try:
        check_groups(experiment, groups)
    except UserError as error:
        obstacles = (error.message,)
    cautions = expected.cautions
    if all(group.clients for group in groups):
        cautions = tuple(one for one in cautions if one != shared_host_caution())
    return replace(expected, obstacles=(*expected.obstacles, *obstacles), cautions=cautions)


def _print_groups(groups: Sequence[HostGroup]) -> None:
    for group in groups:
        server = group.server or LOCAL
        load = ", ".join(group.client_names)
        where = (
            f"server on {server}, load from {load} to {group.address or 'no address'}" if load else f"all on {server}"
        )
        print(f"hosts     {group.name}: {where}")


async def _check_variables(experiment: Experiment, paths: HostPaths) -> None:
    """Against the servers that are in the cache already; `run` asks those that it has to fetch first."""
    builds = await present_builds(experiment, paths, LocalHost("plan", paths.server_user))
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
    for step in experiment.resolved_steps:
        options = "".join(f", {name} = {value}" for name, value in step.options.items())
        warmup, measure = format_duration(step.warmup_s), format_duration(step.measure_s)
        times = f"warm-up {warmup}" + ("" if plan.design == "interleaved" else f", measure {measure}")
        print(f"step      {step.id}: {step.driver}, {times}{options}")
    for threshold in experiment.gate:
        print(f"gate      {limit_words(threshold)}")
    if plan.design == "interleaved":
        _print_interleaved(experiment, plan, expected)
    else:
        _print_blocks(plan, expected)
    print(f"          and {format_duration(expected.prepare_s)} to prepare the data, once")
    disk = format_bytes(expected.disk_bytes)
    study = format_bytes(expected.study_bytes)
    print(f"disk      {disk} while it runs (kept: the template, {size}), {study} for the study;")
    print(f"          {format_bytes(expected.free_bytes)} are free")
    nothing = "nothing on this host beyond own processes and files in the cache"
    print(f"changes   {'; '.join(expected.host_changes) or nothing}")
    blocks = len(plan.blocks)
    contrasts = len(experiment.resolved_steps) * sum(len(arms) for arms in experiment.contrasts().values())
    fewest = minimum_blocks(max(1, contrasts))
    if blocks < fewest:
        print(f"note      {blocks} blocks cannot show a difference in {contrasts} comparisons: {fewest} are needed")
    if experiment.gate and blocks < FEWEST_BLOCKS:
        print(f"note      the gate cannot be fine with {blocks} blocks: {FEWEST_BLOCKS} are needed")
    for caution in expected.cautions:
        print(f"note      {caution}")
    for obstacle in expected.obstacles:
        print(f"OBSTACLE  {obstacle}")


def _print_interleaved(experiment: Experiment, plan: Plan, expected: Forecast) -> None:
    shape, design = shape_of(experiment), experiment.design
    time_s = design.time if plan.sequential else None
    cycles = float(cycles_of(experiment)) if time_s is None else plan_time(time_s, shape).cycles
    slices = f"{design.slice:g} s after {design.washout:g} s of washout"
    print(f"\ndesign    interleaved: {plan.why}")
    print(f"          {shape.servers} servers at the same time, one arm loaded at a time, slices of {slices}")
    if time_s is None:
        print(f"blocks    {len(plan.blocks)}, each with {cycles:.0f} cycles of every step; examined once, at the end")
    else:
        looks = ", ".join(str(look) for look in LOOKS if look <= len(plan.blocks)) or "none, too little time"
        print(
            f"blocks    up to {len(plan.blocks)}, each with about {cycles:.1f} cycles of every step; looks at: {looks}"
        )
        print("          ends as soon as a look decides every contrast; `mydyno resume STUDY --time …` adds blocks")
    for block in plan.blocks[:MOST_SHOWN]:
        print(f"  block {block.block:>2}  {_runs_of(block)}  (started together)")
    if len(plan.blocks) > MOST_SHOWN:
        print(f"  … {len(plan.blocks) - MOST_SHOWN} more")
    word = "at most" if time_s is not None else "about"
    print(f"\ntime      {word} {format_duration(expected.study_s)}")
    print("          the precision to expect is measured on this host by a pilot of the control when it runs")


def _print_blocks(plan: Plan, expected: Forecast) -> None:
    print(f"\ndesign    blocks: {plan.why or 'one run after the other'}")
    blocks = len(plan.blocks)
    print(f"runs      {expected.runs} in {blocks} blocks, each with a second copy of the control (A/A):")
    for block in plan.blocks:
        print(f"  block {block.block:>2}  {_runs_of(block)}")
    print(f"\ntime      about {format_duration(expected.study_s)} ({format_duration(expected.run_s)} a run)")


def _runs_of(block: PlannedBlock) -> str:
    return "  ".join(run.arm + ("′" if run.copy_number == 2 else "") for run in block.runs)


def _arm_words(experiment: Experiment, arm: ArmSpec) -> str:
    """An arm with what it says beside its treatments: control, own control, several instances."""
    words = ["control"] if arm.name == experiment.control else [f"against {arm.control}"] if arm.control else []
    if experiment.most_instances > 1:
        count = experiment.instances_of(arm)
        words.append(f"{count} instance{'' if count == 1 else 's'}")
    return arm.name + (f" ({', '.join(words)})" if words else "")
