"""`mydyno run EXPERIMENT`: a whole study."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from mydyno.cli import arguments
from mydyno.cli.batch_job import batch_job
from mydyno.cli.experiments import load_for_study
from mydyno.cli.side_server import side_server
from mydyno.cli.streams import warn
from mydyno.cli.verbosity import set_verbosity
from mydyno.fleet.groups import parse_hosts, with_data
from mydyno.hosts.paths import HostPaths


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="run", help="Run an experiment and write its report.")(run)


def run(
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
    """Run a study to its end; exit codes as in ExitCode."""
    set_verbosity(verbose)
    job = batch_job(on, on_options, hosts, time, data)
    resolved, source = load_for_study(
        experiment, scale, arguments.all_settings(settings, blocks, time, profile, waits, kernel), fixed=job is not None
    )
    groups = None if hosts is None else parse_hosts(hosts)
    if groups is not None and data is not None:
        groups = with_data(groups, data)
    metrics = arguments.metrics_file(openmetrics)
    paths = HostPaths.resolve(data, allow_writes, allow_changes, wait)
    warn(f"{resolved.name}: checking the host")
    # After the check, so that mistakes are reported at once: what a study needs takes a second to load.
    from mydyno.cli.study_runner import listeners_of, run_batch_to_end, run_fleet_to_end, run_to_end
    from mydyno.execution.planning.design_choice import with_copies
    from mydyno.study import Request, run_study  # as slow

    command = ("mydyno", *sys.argv[1:])
    listeners = listeners_of(metrics)
    if job is not None:
        from mydyno.fleet.batch.study import BatchRequest, run_on_batch  # the same

        submitted = BatchRequest(resolved, source.text, Path(studies), job, command, listeners)
        with side_server(studies, serve):
            run_batch_to_end(lambda watcher: run_on_batch(submitted, paths, watcher), as_json)
        return
    if groups is None:
        resolved = with_copies(resolved, paths)
        request = Request(resolved, source.text, Path(studies), command, listeners=listeners)
        with side_server(studies, serve):
            run_to_end(lambda watcher: run_study(request, paths, watcher), resolved, as_json)
        return
    # What hosts by SSH need is slow to load.
    from mydyno.fleet.controller import FleetRequest, run_on_groups

    ordered = FleetRequest(resolved, source.text, Path(studies), groups, command, listeners=listeners)
    with side_server(studies, serve):
        run_fleet_to_end(lambda watcher: run_on_groups(ordered, paths, watcher), as_json)
