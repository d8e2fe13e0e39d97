"""What is checked before a study or a block of it is executed here, and before a study is continued.

The files of an experiment are each read whole by the program that will use it. `resume` executes what a study's
experiment names, so the study must be the user's own.
"""

from __future__ import annotations

import json
import pwd
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path

from mydyno.drivers.dynoload import load_of_file
from mydyno.errors import HostError, UserError
from mydyno.execution.interleaved.study_time import overhead_s
from mydyno.execution.planning.forecast import Forecast, forecast
from mydyno.execution.planning.time_plan import next_look_s, shape_of
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import DataSpec, Experiment
from mydyno.model.definition.plan import Plan
from mydyno.model.definition.quantities import format_duration
from mydyno.store.study_folder import StudyFolder
from mydyno.workloads.files import SCALE, DumpContents, file_of, is_dump, run_check


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


HINT = "read its study.json, then add --trust to execute what it names: programs, libraries, scripts, commands"
PATH_KEYS = ("basedir", "source", "repository")
"""Keys whose value is a path also without a slash."""


def check_host(experiment: Experiment, plan: Plan, paths: HostPaths, apart: bool = False) -> None:
    """Raises HostError with everything that this host cannot do. `apart`: the load runs on other hosts."""
    obstacles = with_files(forecast(experiment, plan, paths, apart=apart), experiment, paths).obstacles
    if obstacles:
        many = "".join(f"\n  {obstacle}" for obstacle in obstacles)
        raise HostError(obstacles[0] if len(obstacles) == 1 else f"this study cannot be done here:{many}")
    paths.program("dynoprobe")


def check_more_time(folder: StudyFolder, plan: Plan, time_s: float | None, groups: int = 1) -> None:
    """Raises UserError for `resume --time` of a study to which no blocks can be added, or none that lead to a look."""
    if time_s is None:
        return
    if not plan.sequential:
        raise UserError(
            f"--time: {folder.name} has a fixed number of blocks, which is examined once",
            "only a study that was begun with a time (design.time, --time) can be continued; begin a new one",
        )
    if plan.schedule and plan.schedule.last <= len(plan.blocks) and not folder.missing_runs(plan):
        raise UserError(
            f"--time: {folder.name} has {len(plan.blocks)} blocks, those of the last interim analysis",
            "begin a new study",
        )
    done = len(folder.block_spans_ns())
    least_s = next_look_s(shape_of(folder.study().experiment), done, overhead_s(folder), groups)
    if plan.schedule and done >= plan.schedule.first and time_s < least_s:
        raise UserError(
            f"--time {format_duration(time_s)}: {folder.name} has {done} blocks, and its next interim analysis, at "
            f"{plan.schedule.next_after(done)}, takes about {format_duration(least_s)}",
            f"use --time {ceil(least_s / 60)}m",
        )


def other_versions(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    """What differs from the study's versions; empty: nothing. A version that the study lacks may be any."""
    return "; ".join(
        f"{name} is {found[name]}, the study has {version}"
        for name, version in expected.items()
        if found.get(name, version) != version
    )


def check_origin(folder: Path, experiment: Experiment, uid: int) -> None:
    """Raise UserError for a folder of neither this user nor root, and for programs that were brought in the folder."""
    for path in (folder, folder / "study.json", folder / "plan.json"):
        owner = path.stat().st_uid
        if owner not in (uid, 0):
            raise UserError(f"{path} belongs to {_name(owner)}, who decides what is executed", HINT)
    inside = folder.resolve()
    for key, value in _texts(experiment.model_dump(mode="json"), ""):
        is_path = "/" in value or key.rpartition(".")[2] in PATH_KEYS
        if str(inside) in value or (is_path and _is_inside(value, inside)):
            raise UserError(f"{key} = {value!r} is in the study's own folder: it came with the study", HINT)


def _is_inside(value: str, folder: Path) -> bool:
    try:
        return Path(value).expanduser().resolve().is_relative_to(folder)
    except (OSError, RuntimeError, ValueError):  # no path at all
        return False


def _texts(value: object, key: str) -> Iterator[tuple[str, str]]:
    """(dotted key, text) of every text in it."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, key)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
