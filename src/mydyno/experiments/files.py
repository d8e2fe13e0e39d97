"""The files that an experiment names: found before anything starts, and named by absolute paths from then on."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import mydyno
from mydyno.errors import UserError
from mydyno.execution.planning.captured_time import replay_problem
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.model.definition.experiment import FILE_KINDS, DataSpec, Experiment, StepSpec
from mydyno.model.definition.problems import Problem
from mydyno.model.definition.statement_steps import speed_of
from mydyno.servers.statistics import read_file
from mydyno.workloads.captures import read_header
from mydyno.workloads.files import file_problems

SYSBENCH_FOLDERS = (Path("/usr/share/sysbench"), Path("/usr/local/share/sysbench"))
"""Where a bare name of a script is looked for, too."""
STANDARD_FOLDER = Path(mydyno.__file__).parent / "workloads" / "standard"
"""Files of SQL and captures that come with mydyno; a bare name finds them, of SQL with or without suffix."""
Named = TypeVar("Named", StepSpec, DataSpec)
"""What may name a file."""


def with_files(experiment: Experiment, source: TomlSource, folder: Path) -> Experiment:
    """The experiment with the paths of its files resolved against `folder`. Raises UserError."""
    steps = tuple(_found(step, source, ("steps", index), folder) for index, step in enumerate(experiment.steps))
    data = _with_statistics(_found(experiment.data, source, ("data",), folder), experiment, source, folder)
    for problem in file_problems(data):
        raise UserError(problem.text(source.place(problem.key)))
    found = experiment
    if steps != experiment.steps or data != experiment.data:
        found = experiment.model_copy(update={"steps": steps, "data": data})
    _check_replays(found, source)
    return found


def _with_statistics(data: DataSpec, experiment: Experiment, source: TomlSource, folder: Path) -> DataSpec:
    """The data with the path of the statistics, which are read whole. Raises UserError."""
    if data.statistics is None:
        return data
    key = ("data", "statistics")
    if experiment.server.dsn is not None or data.workload == "kv":
        allowed = "data of mydyno's own servers in tables"
        raise UserError(Problem(key, "has no use here", data.statistics, allowed).text(source.place(key)))
    path = (folder / data.statistics).resolve()
    read_file(path)
    return data.model_copy(update={"statistics": str(path)})


def _check_replays(experiment: Experiment, source: TomlSource) -> None:
    """Raises UserError where a capture that writes would be played twice."""
    levels = (len(spec.connections) * max(1, len(spec.rate)) for spec in experiment.steps)
    of_spec = [index for index, count in enumerate(levels) for _ in range(count)]
    for number, index in enumerate(of_spec):
        if problem := replay_problem(experiment, number, experiment.design.kind):
            key = ("steps", index, "replay")
            name = Path(experiment.steps[index].replay or "").name
            raise UserError(Problem(key, problem, name).text(source.place(key)))


def _found(table: Named, source: TomlSource, key: tuple[str | int, ...], folder: Path) -> Named:
    for kind in FILE_KINDS:
        name = getattr(table, kind, None)
        if name is None:
            continue
        looked_at = [folder / name]
        if kind == "script" and Path(name).name == name:
            looked_at += [beside / Path(name).with_suffix(".lua").name for beside in SYSBENCH_FOLDERS]
        elif kind == "sql" and Path(name).name == name:
            suffix = ".toml" if isinstance(table, DataSpec) else ".sql"
            looked_at.append(STANDARD_FOLDER / Path(name).with_suffix(suffix).name)
        elif kind == "replay" and Path(name).name == name:
            looked_at.append(STANDARD_FOLDER / name)
        path = next((path for path in looked_at if path.is_file()), None)
        if path is None:
            allowed = f"a file; looked for {', '.join(str(path) for path in looked_at)}"
            problem = Problem((*key, kind), "no such file", name, allowed)
            raise UserError(problem.text(source.place((*key, kind))))
        header = read_header(path) if kind == "replay" else None
        if kind == "replay" and header is None:
            problem = Problem((*key, kind), "is not a capture", name, "a file made with `dynoload capture`")
            raise UserError(problem.text(source.place((*key, kind))))
        resolved = table.model_copy(update={kind: str(path.resolve())})
        if header is None or not isinstance(resolved, StepSpec) or speed_of(resolved) is None:
            return resolved
        if "connections" in resolved.model_fields_set:
            return resolved
        return resolved.model_copy(update={"connections": (header.peak_sessions,)})
    return table
