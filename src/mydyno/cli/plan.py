"""`mydyno plan EXPERIMENT`: the dry run. Runs in order, time, disk, and what it will change on this host."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import typer

from mydyno.cli import ExitCode
from mydyno.cli.streams import print_json
from mydyno.cli.study_options import StudyOptions
from mydyno.errors import UserError
from mydyno.execution.planning.design_choice import with_copies
from mydyno.execution.planning.forecast import Forecast, shared_host_caution
from mydyno.execution.planning.preview import plan_parts, preview
from mydyno.fleet.groups import check_groups
from mydyno.hosts.paths import HostPaths
from mydyno.language import agreed
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.host_groups import LOCAL, BatchJob, HostGroup
from mydyno.model.definition.plan import Plan


def plan(options: StudyOptions) -> None:
    """Print what `run` would do on this host; starts nothing."""
    resolved, _ = options.load()
    paths = HostPaths.resolve(options.data)
    if options.job is not None:
        _print_job(resolved, options.job, options.studies, paths, options.as_json)
        return
    groups = options.groups()
    if not groups:
        resolved = with_copies(resolved, paths)
    apart = bool(groups) and all(group.clients for group in groups)
    previewed = asyncio.run(preview(resolved, paths, apart=apart))
    made = previewed.plan
    expected = _on_groups(previewed.forecast, resolved, groups, paths)
    if options.as_json:
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
