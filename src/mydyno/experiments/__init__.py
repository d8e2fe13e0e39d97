"""The built-in experiments, how any experiment is loaded, by name or by path, and the files that one names: found
before anything starts, and named by absolute paths from then on.

`option_file = "my.cnf"` of [server], [treatments] or an arm: its options become variables but for mydyno's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import mydyno
from mydyno.drivers.catalogue import DRIVERS
from mydyno.drivers.dynoload import Dynoload
from mydyno.errors import UserError
from mydyno.execution.planning.time_plan import replay_problem
from mydyno.experiment_file.arms import Vocabulary
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.toml_source import OF_EVERY_ARM, TomlSource, based_on, toml_text
from mydyno.model.definition.experiment import FILE_KINDS, DataSpec, Experiment, Step, StepSpec
from mydyno.model.definition.problems import Key, Problem, with_guess
from mydyno.model.definition.server_options import inside, option_name, reserved_because
from mydyno.model.definition.special_steps import speed_of
from mydyno.model.metrics import METRICS
from mydyno.model.server_version import ServerVersion
from mydyno.servers.catalogue import known_servers
from mydyno.servers.option_file import groups_of, is_of_a_version, options_of, read_option_file
from mydyno.servers.statistics import read_file
from mydyno.treatments.catalogue import TREATMENTS
from mydyno.treatments.coexistence import with_slices
from mydyno.workloads.data import DATA_WORKLOADS, WORKLOADS
from mydyno.workloads.files import SYSBENCH_FOLDERS, file_problems, read_header

STANDARD_FOLDER = Path(mydyno.__file__).parent / "workloads" / "standard"
"""Files of SQL and captures that come with mydyno; a bare name finds them, of SQL with or without suffix."""
Named = TypeVar("Named", StepSpec, DataSpec)
"""What may name a file."""
COMMON = frozenset({"mysqld", "server"})
"""The sections that every server reads."""


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


def with_option_files(tree: dict[str, Any], folder: Path) -> tuple[dict[str, Any], list[Problem]]:
    """The tree with the variables of its option files, under those that it sets itself; what is wrong with them.

    Paths are relative to `folder`, and absolute in the result. Raises UserError for a file that is no option file.
    """
    problems: list[Problem] = []
    server, shared, arms = (
        table if isinstance(table := tree.get(name), dict) else {} for name in ("server", OF_EVERY_ARM, "arms")
    )
    tables = {name: arm for name, arm in arms.items() if isinstance(arm, dict)}
    versions = [_version(arm.get("server", server.get("name"))) for arm in tables.values()]
    changed = dict(tree)
    for name, table in (("server", server), (OF_EVERY_ARM, shared)):
        if "option_file" in table:
            read = versions or [_version(server.get("name"))]
            changed[name] = _with_variables(table, (name,), folder, read, problems)
    if any("option_file" in arm for arm in tables.values()):
        own = {
            name: _with_variables(arm, ("arms", name), folder, [version], problems) if "option_file" in arm else arm
            for (name, arm), version in zip(tables.items(), versions, strict=True)
        }
        changed["arms"] = {**arms, **own}
    if problems or "dsn" not in server or changed == tree:
        return changed, problems
    return changed, [Problem(("server", "dsn"), "an external server is not configured by an option file")]


def _version(server: object) -> ServerVersion | None:
    """The version of a server of the catalogue; None: known only once the server is at hand."""
    entry = known_servers().get(server) if isinstance(server, str) else None
    return None if entry is None else entry.version


def _with_variables(
    table: dict[str, Any], key: Key, folder: Path, versions: list[ServerVersion | None], problems: list[Problem]
) -> dict[str, Any]:
    name, key = table["option_file"], (*key, "option_file")
    path = (folder / name).resolve() if isinstance(name, str) else folder
    if not path.is_file():
        problems.append(Problem(key, "no such file", name, f"an option file of the server; looked for {path}"))
        return table
    options = read_option_file(path)
    groups = [COMMON if version is None else groups_of(version) for version in versions]
    sections = {option.section for option in options}
    doubtful = sorted({*_of_unknown(sections, versions), *_differing(sections, groups)})
    if doubtful:
        words = f"has the section [{doubtful[0]}], which not every version reads, and its servers have no one version"
        problems.append(Problem(key, words, name, "[mysqld] and [server], or server.name from the catalogue"))
        return table
    read = options_of(options, groups[0])
    if not read:
        sections_read = ", ".join(f"[{one}]" for one in sorted(groups[0]))
        problems.append(Problem(key, "has no option in a section that its server reads", name, sections_read))
        return table
    said = table.get("variables", {})
    own = {option_name(option) for option in said} if isinstance(said, dict) else set()
    found = {
        option.name: value
        for option in read.values()
        if option.name not in own and reserved_because(option.name, value := inside(option.name, option.value)) is None
    }
    return {**table, "option_file": str(path), "variables": {**found, **said}}


def _of_unknown(sections: set[str], versions: list[ServerVersion | None]) -> Iterator[str]:
    return (section for section in sections if None in versions and is_of_a_version(section))


def _differing(sections: set[str], groups: list[frozenset[str]]) -> set[str]:
    read = [sections & one for one in groups]
    return set().union(*(one ^ read[0] for one in read))


def built_in() -> dict[str, Path]:
    """Name → file of every built-in experiment."""
    folder = Path(str(resources.files(__name__)))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def vocabulary() -> Vocabulary:
    """Every name that an experiment may use."""
    return Vocabulary(
        servers=list(known_servers()),
        data_workloads=DATA_WORKLOADS,
        workload_options={name: workload.options for name, workload in WORKLOADS.items()},
        workload_data={name: workload.data for name, workload in WORKLOADS.items()},
        workload_drivers={name: workload.drivers for name, workload in WORKLOADS.items()},
        treatments={name: setting for name, (setting, _) in TREATMENTS.items()},
        metrics=[name for name, metric in METRICS.items() if metric.better != "none"],
        check_step=lambda step: DRIVERS[step.driver]().check(step),
        check_data=_check_data,
    )


def _check_data(data: DataSpec, step: Step) -> list[str]:
    if data.text == "digits" or (data.workload == "oltp" and step.driver == Dynoload.name):
        return []
    if data.workload != "oltp":
        return [f"is for the data oltp alone, and this is {data.workload}"]
    return [f'{step.driver} creates rows of digits only; set driver = "dynoload" in every step']


def source_of(name_or_path: str) -> TomlSource:
    """The text of a built-in experiment or of a file. Raises UserError that names the nearest built-in one."""
    known = built_in()
    path = known.get(name_or_path) or Path(name_or_path)
    if not path.is_file():
        hint = with_guess(f"built in: {', '.join(known)}", name_or_path, known)
        what = "no such file" if "/" in name_or_path or name_or_path.endswith(".toml") else "no such experiment or file"
        raise UserError(f"{name_or_path}: {what}", hint)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    name = path.name if name_or_path in known else name_or_path
    return source_from_text(name, toml_text(name, content))


def source_from_text(name: str, text: str) -> TomlSource:
    """An experiment's text, with its base where it has one; `name` is that of messages. Raises UserError."""
    source = TomlSource.parse(name, text)
    return source if "base" not in source.tree else _with_base(source)


def _with_base(source: TomlSource) -> TomlSource:
    base = source.tree["base"]
    known = built_in()
    if not isinstance(base, str) or base not in known:
        hint = with_guess(f"built in: {', '.join(known)}", base, known)
        raise UserError(f"{source.place(('base',))}: base = {base!r}: no built-in experiment", hint)
    return replace(source, tree=based_on(source_of(base).tree, source.tree))


def load(name_or_path: str, scale: str | None = None, settings: Sequence[str] = ()) -> tuple[Experiment, TomlSource]:
    """A validated experiment and its source. Raises UserError with every mistake."""
    source = source_of(name_or_path)
    return experiment_of(source, scale, settings, Path(name_or_path).parent), source


def experiment_of(source: TomlSource, scale: str | None, settings: Sequence[str], folder: Path) -> Experiment:
    """A validated experiment, whose files are relative to `folder`. Raises UserError with every mistake."""
    read = partial(with_option_files, folder=folder)
    return with_slices(with_files(parse_experiment(source, vocabulary(), scale, settings, read), source, folder))
