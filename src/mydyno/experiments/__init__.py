"""The built-in experiments, and how any experiment is loaded: by name or by path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path

from mydyno.drivers.catalogue import DRIVERS
from mydyno.drivers.dynoload import Dynoload
from mydyno.errors import UserError
from mydyno.experiment_file.arms import Vocabulary
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.toml_source import TomlSource, based_on, toml_text
from mydyno.experiments.files import with_files, with_option_files
from mydyno.model.definition.experiment import DataSpec, Experiment, Step
from mydyno.model.definition.problems import with_guess
from mydyno.model.metrics import METRICS
from mydyno.servers.catalogue import known_servers
from mydyno.treatments.catalogue import TREATMENTS
from mydyno.workloads.catalogue import DATA_WORKLOADS, WORKLOADS


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
    return with_files(parse_experiment(source, vocabulary(), scale, settings, read), source, folder)
