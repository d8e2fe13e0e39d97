"""`mydyno resume STUDY`: make the runs that an interrupted or killed study still lacks."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from mydyno.cli import arguments
from mydyno.cli.streams import warn_of_damage
from mydyno.execution.checks import check_origin
from mydyno.hosts.paths import HostPaths
from mydyno.store.study_folder import StudyFolder


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
    """Continue an interrupted study, or add blocks to one that has a time."""
    path = arguments.study_path(study, studies)
    time_s = arguments.duration_s(time)
    folder = StudyFolder.open(path)
    record = folder.study()
    if not trust:
        check_origin(path, record.experiment, os.geteuid())
    warn_of_damage(folder)
    paths = HostPaths.resolve(data, allow_writes, allow_changes, wait)
    # After the check, so that mistakes are reported at once: what a study needs takes a third of a second to load.
    from mydyno.cli.study_runner import Work, listeners_of, run_to_end
    from mydyno.study import resume_study

    more: dict[str, Any] = {"time_s": time_s, "listeners": listeners_of(openmetrics)}
    work: Work = partial(resume_study, path, paths, **more)
    here = None
    if record.batch is not None:
        from mydyno.fleet.batch.study import resume_on_batch  # the same

        work = partial(resume_on_batch, path, **more)
    elif record.host_groups:
        # What hosts by SSH need is slow to load.
        from mydyno.fleet.controller import resume_on_groups

        work = partial(resume_on_groups, path, paths, **more)
    else:
        here = record.experiment
    run_to_end(work, as_json, here, record.batch is not None, path.absolute().parent if serve else None)
