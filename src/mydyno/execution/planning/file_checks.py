"""The files of an experiment, each read whole by the program that will use it, before anything starts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mydyno.drivers.dynoload_arguments import load_of_file
from mydyno.errors import UserError
from mydyno.execution.planning.forecast import Forecast
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import DataSpec, Experiment
from mydyno.workloads.captures import DumpContents, run_check
from mydyno.workloads.files import SCALE, file_of, is_dump


def with_files(expected: Forecast, experiment: Experiment, paths: HostPaths) -> Forecast:
    """The forecast with what a dump consists of, and why files of data and steps cannot be used.

    Takes as long as dumps and captures are large. Of a script only the syntax is checked: nothing of it is executed.
    """
    if not (experiment.data.sql or experiment.data.script or any(step.file for step in experiment.resolved_steps)):
        return expected
    program = paths.program("dynoload")
    obstacles = list(expected.obstacles)
    dump = None
    try:
        dump = _check_data(program, experiment.data)
    except UserError as error:
        key = "sql" if experiment.data.sql is not None else "script"
        obstacles.append(f"data.{key}: {error.message}")
    obstacles += dict.fromkeys(_step_problems(program, experiment))
    return replace(expected, dump=dump, obstacles=tuple(obstacles))


def _check_data(program: Path, data: DataSpec) -> DumpContents | None:
    """What the dump consists of, if it is one. Raises UserError."""
    if data.script is not None:
        run_check(program, ["script", data.script, "--check"])
    if data.sql is None:
        return None
    scale = [f"--{SCALE}={data.options[SCALE]}"] if SCALE in data.options else []
    found = run_check(program, ["sql", "check", str(file_of(data)), *scale])
    return DumpContents.of(json.loads(found)) if is_dump(data) else None


def _step_problems(program: Path, experiment: Experiment) -> Iterator[str]:
    checked = set()
    for step in experiment.resolved_steps:
        once = (step.file, str(step.options))  # the same at each number of connections
        if step.file is None or once in checked or (experiment.server.dsn and step.script is None):
            continue  # on an external server load_writes() reads it, with the schema
        checked.add(once)
        try:
            run_check(program, [*load_of_file(step, experiment.data), "--check"])
        except UserError as error:
            yield f"load level {step.id}: {error.message}"
