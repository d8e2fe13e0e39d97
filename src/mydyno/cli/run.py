"""`mydyno run EXPERIMENT`: a whole study."""

from __future__ import annotations

import sys
from functools import partial

from mydyno.cli.streams import warn
from mydyno.cli.study_options import StudyOptions
from mydyno.hosts.paths import HostPaths


def run(options: StudyOptions) -> None:
    """Run an experiment and write its report."""
    job = options.job
    experiment, source = options.load()
    groups = options.groups()
    paths = HostPaths.resolve(options.data, options.allow_writes, options.allow_changes, options.wait)
    warn(f"{experiment.name}: checking the host")
    # After the check, so that mistakes are reported at once: what a study needs takes a second to load.
    from mydyno.cli.study_runner import Work, listeners_of, run_to_end
    from mydyno.execution.planning.design_choice import with_copies  # the same
    from mydyno.execution.study_record import Request  # the same
    from mydyno.study import run_study

    if job is None and not groups:
        experiment = with_copies(experiment, paths)
    command = ("mydyno", *sys.argv[1:])
    request = Request(experiment, source.text, options.studies, command, listeners=listeners_of(options.openmetrics))
    work: Work = partial(run_study, request, paths)
    if job is not None:
        from mydyno.fleet.batch.study import run_on_batch  # the same

        work = partial(run_on_batch, request, job, paths)
    elif groups:
        # What hosts by SSH need is slow to load.
        from mydyno.fleet.controller import run_on_groups

        work = partial(run_on_groups, request, groups, paths)
    here = experiment if job is None and not groups else None
    run_to_end(work, options.as_json, here, job is not None, options.studies if options.serve else None)
