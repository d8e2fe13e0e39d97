"""`mydyno resume STUDY`: make the runs that an interrupted or killed study still lacks."""

from __future__ import annotations

import os

import typer

from mydyno.cli import arguments
from mydyno.cli.output import warn_of_damage
from mydyno.cli.side_server import side_server
from mydyno.cli.verbosity import set_verbosity
from mydyno.execution.checks import check_origin
from mydyno.hosts.paths import HostPaths
from mydyno.store.study_folder import StudyFolder


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="resume", help="Continue an interrupted study, or add blocks to one that has a time.")(resume)


def resume(
    study: arguments.Study,
    time: arguments.MoreTime = None,
    studies: arguments.Studies = arguments.DEFAULT_STUDIES,
    data: arguments.Data = None,
    allow_writes: arguments.AllowWrites = False,
    allow_changes: arguments.AllowChanges = False,
    wait: arguments.Wait = False,
    trust: arguments.Trust = False,
    serve: arguments.Serve = False,
    openmetrics: arguments.OpenMetrics = None,
    as_json: arguments.Json = False,
    verbose: arguments.Verbose = False,
) -> None:
    """Resume a study; exit codes as in ExitCode."""
    set_verbosity(verbose)
    path = arguments.study_path(study, studies)
    time_s = arguments.duration_s(time)
    folder = StudyFolder.open(path)
    record = folder.study()
    if not trust:
        check_origin(path, record.experiment, os.geteuid())
    warn_of_damage(folder)
    metrics = arguments.metrics_file(openmetrics)
    paths = HostPaths.resolve(data, allow_writes, allow_changes, wait)
    # After the check, so that mistakes are reported at once: what a study needs takes a third of a second to load.
    from mydyno.cli.study_runner import listeners_of, run_batch_to_end, run_fleet_to_end, run_to_end
    from mydyno.study import resume_study

    listeners = listeners_of(metrics)
    if record.batch is not None:
        from mydyno.fleet.batch.study import resume_on_batch  # the same

        with side_server(path.absolute().parent, serve):
            run_batch_to_end(lambda watcher: resume_on_batch(path, watcher, time_s, listeners), as_json)
        return
    if record.host_groups:
        # What hosts by SSH need is slow to load.
        from mydyno.fleet.controller import resume_on_groups

        with side_server(path.absolute().parent, serve):
            run_fleet_to_end(
                lambda watcher: resume_on_groups(path, paths, watcher, time_s=time_s, listeners=listeners), as_json
            )
        return
    with side_server(path.absolute().parent, serve):
        run_to_end(
            lambda watcher: resume_study(path, paths, watcher, time_s=time_s, listeners=listeners),
            record.experiment,
            as_json,
        )
