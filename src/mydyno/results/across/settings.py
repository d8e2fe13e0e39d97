"""The settings of several studies, or of several arms of one: what differs, and what is equal, by kind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mydyno.drivers.catalogue import DRIVERS
from mydyno.model.definition.experiment import ArmSpec, DataSpec, Step
from mydyno.model.definition.quantities import format_bytes, format_duration
from mydyno.model.stored.comparison import Setting, SettingGroup
from mydyno.model.stored.records import RunRecord
from mydyno.results.across.saved import SavedStudy
from mydyno.results.settings import (
    FIRST_FACTS,
    NOT_COMPARED,
    SHOWN_LETTERS,
    comparable_facts,
    meaning_of,
    shapes_performance,
)

HOSTNAME = "hostname"
PACKAGES = "packages"
LOAD = "data and load"
SHOWN_DIGITS = 12
NOT_SETTINGS = frozenset({"load_average_before", "synced_writes_per_s"})


def study_settings(studies: Sequence[SavedStudy]) -> tuple[SettingGroup, ...]:
    """The groups in the order in which they explain a difference: experiment, server, its variables and packages, host,
    load, design, tools.
    """
    return tuple(
        _group(name, [of(study) for study in studies])
        for name, of in (
            ("experiment", _experiment),
            ("server", _server),
            ("server variables of the control", _variables_of_control),
            (PACKAGES, _packages),
            ("host", _host),
            (LOAD, load_settings),
            ("design", _design),
            ("mydyno and load programs", _tools),
        )
    )


def arm_settings(study: SavedStudy, arms: Sequence[str]) -> tuple[SettingGroup, ...]:
    """Treatments, servers and server variables of arms."""
    run_of = {run.arm: run for run in study.runs}
    specs = [study.study.experiment.arm(arm) for arm in arms]
    return (
        _group("treatments", [treatments(spec) for spec in specs]),
        _group("server", [{"version": study.server_of.get(arm)} for arm in arms]),
        _group("server variables", [server_variables(run_of.get(arm)) for arm in arms]),
    )


def treatments(arm: ArmSpec) -> dict[str, str | None]:
    """{treatment, or treatment.key: value in words} of an arm."""
    found: dict[str, str | None] = {}
    for name, value in arm.treatments.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{key}": _text(one) for key, one in value.items()}
        else:
            found[name] = _text(value)
    if arm.instances is not None:
        found["instances"] = str(arm.instances)
    return found


def server_variables(run: RunRecord | None) -> dict[str, str | None]:
    """The variables of a run's first server that shape performance, as the server reported them."""
    if run is None or not run.servers:
        return {}
    known = run.servers[0].variables
    return {name.lower(): value[:SHOWN_LETTERS] for name, value in known.items() if shapes_performance(name.lower())}


def load_settings(study: SavedStudy) -> dict[str, str | None]:
    """Data and steps."""
    experiment = study.study.experiment
    found = data_settings(experiment.data)
    for step in experiment.resolved_steps:
        found[f"load level {step.id}"] = step_settings(step)
    return found | file_settings(study)


def file_settings(study: SavedStudy) -> dict[str, str | None]:
    """The beginning of the SHA-256 of each file that the experiment names: two texts of one name differ."""
    return {f"file {Path(path).name}": sha256[:SHOWN_DIGITS] for path, sha256 in study.study.files.items()}


def data_settings(data: DataSpec) -> dict[str, str | None]:
    """What the data of a study are made from."""
    return {f"data.{name}": _text(value) for name, value in data.model_dump().items()}


def step_settings(step: Step) -> str:
    """Driver, windows and options of a step."""
    windows = [f"warmup={format_duration(step.warmup_s)}", f"measure={format_duration(step.measure_s)}"]
    return ", ".join([step.driver, *windows, *step_options(step)])


def step_options(step: Step) -> list[str]:
    """The workload's options: "range_size=5"."""
    return [f"{name}={_text(value)}" for name, value in sorted(step.options.items())]


def host_facts(study: SavedStudy) -> dict[str, str | None]:
    """The facts of a study's host; of several host groups the facts that all of them share."""
    hosts = list(study.study.hosts.values()) or [study.study.host]
    facts = [comparable_facts(one) for one in hosts]
    shared = {name: value for name, value in facts[0].items() if all(one.get(name) == value for one in facts)}
    ordered = [name for name in dict.fromkeys([*FIRST_FACTS, *sorted(shared)]) if name in shared]
    found = {name: _yes_or_no(shared[name]) for name in ordered if name not in NOT_COMPARED}
    return {HOSTNAME: study.host, **found}


def _yes_or_no(value: str | bool) -> str:
    return value if isinstance(value, str) else "yes" if value else "no"


def _experiment(study: SavedStudy) -> dict[str, str | None]:
    experiment = study.study.experiment
    found: dict[str, str | None] = {
        "name": experiment.name,
        "question": experiment.question,
        "scale": experiment.scale,
        "control": experiment.control,
        "arms": ", ".join(arm.name for arm in experiment.arms),
        "primary metric": ", ".join(experiment.verdict.primary),
        "margin": f"{experiment.verdict.margin * 100:.10g} %",
    }
    for arm in experiment.arms:
        found |= {f"{arm.name}: {name}": value for name, value in treatments(arm).items()}
    return found


def _server(study: SavedStudy) -> dict[str, str | None]:
    spec = study.study.experiment.server
    found: dict[str, str | None] = {"server": spec.dsn or spec.title, "version": study.server}
    if len(set(study.server_of.values())) > 1:
        found |= {f"{arm}: version": server for arm, server in study.server_of.items()}
    found |= {f"{name} (set)": _text(value) for name, value in spec.variables.items()}
    return found | {"build": study.study.versions.get("server", "")[:SHOWN_LETTERS] or None}


def _packages(study: SavedStudy) -> dict[str, str | None]:
    """Packages of server and libraries, an allocator's among them."""
    return {name: text for name, text in study.study.versions.items() if name not in (*DRIVERS, "server")}


def _variables_of_control(study: SavedStudy) -> dict[str, str | None]:
    return server_variables(next((run for run in study.runs if run.arm == study.summary.control), None))


def _host(study: SavedStudy) -> dict[str, str | None]:
    return {name: value for name, value in host_facts(study).items() if name not in NOT_SETTINGS}


def _design(study: SavedStudy) -> dict[str, str | None]:
    summary, design = study.summary, study.study.experiment.design
    found: dict[str, str | None] = {
        "design": summary.design,
        "blocks examined": str(len(study.examined_blocks)),
        "time": None if design.time is None else format_duration(design.time),
        "interim analyses": "yes" if study.plan.sequential else "no",
        "seed": str(study.plan.seed),
    }
    if summary.interleaving:
        found |= {
            "slice": format_duration(summary.interleaving.slice_s),
            "washout": f"{summary.interleaving.washout_s:g} s",
            "cycles": str(summary.interleaving.cycles),
            "adjusted for": ", ".join(summary.interleaving.covariates) or "nothing",
        }
    return found


def _tools(study: SavedStudy) -> dict[str, str | None]:
    drivers = {name: text for name, text in study.study.versions.items() if name in DRIVERS}
    return {"mydyno": study.study.mydyno_version, **drivers}


def _group(name: str, of: Sequence[Mapping[str, str | None]]) -> SettingGroup:
    """The settings of all, in order of first appearance; None where one is not recorded."""
    names = dict.fromkeys(key for one in of for key in one)
    variables = name.startswith("server variables")
    differing: list[Setting] = []
    equal: list[Setting] = []
    for key in names:
        values = tuple(one.get(key) for one in of)
        if variables and None in values:
            continue  # a variable that one version alone has cannot be set alike, and there are hundreds
        meant = {meaning_of(value) if value is not None else None for value in values}
        (differing if len(meant) > 1 else equal).append(Setting(name=key, values=values))
    return SettingGroup(name=name, differing=tuple(differing), equal=tuple(equal))


def _text(value: Any) -> str:
    """A value of TOML on one line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int) and value >= 1 << 20 and value % (1 << 20) == 0:
        return format_bytes(float(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
