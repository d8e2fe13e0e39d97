"""The settings of studies, or of arms of one: which differ, what may be a cause, what changed from study to study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mydyno.across.saved import SavedStudy, host_identity
from mydyno.document.parts import Fold, Note, Part, Table
from mydyno.drivers.catalogue import DRIVERS
from mydyno.language import agreed
from mydyno.model.definition.experiment import DataSpec, Step
from mydyno.model.definition.quantities import format_duration
from mydyno.model.stored.comparison import Setting, SettingGroup
from mydyno.model.stored.records import RunRecord
from mydyno.results.settings import (
    FIRST_FACTS,
    NOT_COMPARED,
    SHOWN_LETTERS,
    comparable_facts,
    meaning_of,
    shapes_performance,
    text_of,
    treatments,
)
from mydyno.wording.numbers import NONE

PACKAGES = "packages"
SHOWN_DIGITS = 12
BUILD = ("build", "version", "server")
NOT_CAUSES = (
    "question", "name", "seed", "time", "blocks examined", "cycles", "arms", "scale", "interim analyses",
    "adjusted for",
)  # fmt: skip
"""Settings that describe a study and change nothing on its servers."""
MOST_OF_GROUP = 3
"""Settings of one kind that are named at a point of a history; of more the number is given."""
MOST_CHANGED = 6
"""Settings named at a point; of more the number is given."""
MOST_ROWS = 16
"""Rows of a group of settings on a terminal."""


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
            ("data and load", _load),
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


def server_variables(run: RunRecord | None) -> dict[str, str | None]:
    """The variables of a run's first server that shape performance, as the server reported them."""
    if run is None or not run.servers:
        return {}
    known = run.servers[0].variables
    return {name.lower(): value[:SHOWN_LETTERS] for name, value in known.items() if shapes_performance(name.lower())}


def _load(study: SavedStudy) -> dict[str, str | None]:
    """Data and steps."""
    experiment = study.study.experiment
    found = data_settings(experiment.data)
    found |= {f"load level {step}": words for step, words in load_settings(study).items()}
    return found | file_settings(study)


def file_settings(study: SavedStudy) -> dict[str, str | None]:
    """The beginning of the SHA-256 of each file that the experiment names: two texts of one name differ."""
    return {f"file {Path(path).name}": sha256[:SHOWN_DIGITS] for path, sha256 in study.study.files.items()}


def data_settings(data: DataSpec) -> dict[str, str | None]:
    """What the data of a study are made from."""
    return {f"data.{name}": text_of(value) for name, value in data.model_dump().items()}


def load_settings(study: SavedStudy) -> dict[str, str | None]:
    """{step: how it loads}."""
    return {step.id: step_settings(step) for step in study.study.experiment.resolved_steps}


def step_settings(step: Step) -> str:
    """Driver, windows and options of a step."""
    warmup, measured = format_duration(step.warmup_s), format_duration(step.measure_s)
    return ", ".join([step.driver, f"{warmup} warm-up, {measured} measured", *step_options(step)])


def step_options(step: Step) -> list[str]:
    """Options of the workload and the step: "range_size=5", "search of rate: p99 ≤ 20 ms", "statements=on"."""
    searched = [] if step.search is None else [f"search of {step.search.of}: {step.search.words}"]
    options = [f"{name}={text_of(value)}" for name, value in sorted(step.options.items())]
    return [*options, *searched, *["statements=on"] * step.statements]


def _host(study: SavedStudy) -> dict[str, str | None]:
    """The facts of a study's host, and of an external server's; of several host groups those that all of them share."""
    hosts = list(study.study.hosts.values()) or [study.study.host]
    facts = [comparable_facts(one) for one in hosts]
    shared = {name: value for name, value in facts[0].items() if all(one.get(name) == value for one in facts)}
    ordered = [name for name in dict.fromkeys([*FIRST_FACTS, *sorted(shared)]) if name in shared]
    found = {name: shared[name] for name in ordered if name not in NOT_COMPARED}
    found |= {f"server's {name}": value for name, value in comparable_facts(study.study.server_host).items()}
    words = {name: value if isinstance(value, str) else "yes" if value else "no" for name, value in found.items()}
    return {"hostname": study.host, **words}


def _experiment(study: SavedStudy) -> dict[str, str | None]:
    experiment = study.study.experiment
    found: dict[str, str | None] = {
        "name": experiment.name,
        "question": experiment.question,
        "scale": experiment.scale,
        "control": experiment.control,
        "instances": str(experiment.instances),
        "arms": ", ".join(arm.name for arm in experiment.arms),
        "primary metric": ", ".join(experiment.verdict.primary),
        "margin": f"{experiment.verdict.margin * 100:.10g} %",
    }
    for arm in experiment.arms:
        found |= {f"{arm.name}: {name}": value for name, value in treatments(arm).items()}
    return found


def _server(study: SavedStudy) -> dict[str, str | None]:
    spec = study.study.experiment.server
    name = "server" if spec.dsn is None else "external server"
    found: dict[str, str | None] = {name: spec.dsn or spec.title, "version": study.server}
    if len(set(study.server_of.values())) > 1:
        found |= {f"{arm}: version": server for arm, server in study.server_of.items()}
    found |= {f"{name} (set)": text_of(value) for name, value in spec.variables.items()}
    return found | {"build": study.study.versions.get("server", "")[:SHOWN_LETTERS] or None}


def _packages(study: SavedStudy) -> dict[str, str | None]:
    """Packages of server and libraries, an allocator's among them."""
    return {name: text for name, text in study.study.versions.items() if name not in (*DRIVERS, "server")}


def _variables_of_control(study: SavedStudy) -> dict[str, str | None]:
    return server_variables(next((run for run in study.runs if run.arm == study.summary.control), None))


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


def differing_definition(studies: Sequence[SavedStudy], arm: str) -> tuple[str, ...]:
    """Which of an arm's treatments differ between studies: "variables.innodb_io_capacity", "instances"."""
    known = []
    for experiment in (study.study.experiment for study in studies):
        spec = experiment.arm(arm)
        known.append(treatments(spec) | {"instances": str(experiment.instances_of(spec))})
    every = dict.fromkeys(name for one in known for name in one)
    return tuple(name for name in every if len({one.get(name) for one in known}) > 1)


def same_control(first: SavedStudy, second: SavedStudy, control: str) -> bool:
    """Whether a control is the same server with the same settings, treatments, data, load and host in both studies.
    Steps and files that one of them lacks do not count.
    """

    def known(of: SavedStudy) -> tuple[object, ...] | None:
        run = next((run for run in of.runs if run.arm == control), None)
        server = (of.server_of.get(control), of.study.versions.get("server"), server_variables(run))
        return None if run is None else (*server, of.study.experiment.data, host_identity(of))

    one, other = known(first), known(second)
    mine, theirs = (file_settings(of) | load_settings(of) for of in (first, second))
    is_same = one is not None and one == other and all(mine[name] == theirs[name] for name in mine.keys() & theirs)
    return is_same and not differing_definition((first, second), control)


def changed_between(before: SavedStudy, after: SavedStudy) -> tuple[str, ...]:
    """What was recorded to differ: "version: MariaDB 10.11.18 → MariaDB 10.11.19"; the server first."""
    found = []
    for group in sorted(study_settings((before, after)), key=lambda group: group.name != "server"):
        differing = [setting for setting in group.differing if setting.name not in NOT_CAUSES]
        if group.name == "server":
            differing = _of_server(differing)
        if len(differing) > MOST_OF_GROUP or (group.name == PACKAGES and differing):
            found.append(_counted(group.name, len(differing)))
            continue
        for setting in differing:
            old, new = ("not recorded" if value is None else value for value in setting.values)
            found.append(f"{setting.name}: {old} → {new}")
    if len(found) > MOST_CHANGED:
        return (*found[: MOST_CHANGED - 1], agreed(f"{len(found) - MOST_CHANGED + 1} more settings"))
    return tuple(found)


def _counted(group: str, count: int) -> str:
    """How many settings of a group: "3 packages"."""
    if group == PACKAGES:
        return f"{count} {'package' if count == 1 else 'packages'}"
    return f"{count} {group}"


def _of_server(differing: Sequence[Setting]) -> list[Setting]:
    """The version stands for the build and the name where it differs."""
    implied = BUILD if any(setting.name == "version" for setting in differing) else ()
    return [one for one in differing if one.name == "version" or one.name not in implied]


def causes(groups: Sequence[SettingGroup]) -> list[str]:
    """The differing settings that may change what servers do; packages count as one."""
    return [name for group in groups for name in _causes(group)]


def _causes(group: SettingGroup) -> list[str]:
    found = [one.name for one in group.differing if one.name not in NOT_CAUSES]
    if group.name == "server":
        others = [name for name in found if name not in BUILD]
        return (["the server's build"] if len(others) < len(found) else []) + others
    return [_counted(PACKAGES, len(found))] if found and group.name == PACKAGES else found


def settings_part(groups: Sequence[SettingGroup], labels: Sequence[str], with_equal: bool) -> Part:
    """Those that differ, and how many are equal; `with_equal`: with these."""
    differing = _tables(groups, labels, lambda group: group.differing)
    counts = [f"{group.name} {len(group.equal)}" for group in groups if group.equal]
    total = sum(len(group.equal) for group in groups)
    equal = agreed(f"{total} settings are equal ({', '.join(counts)}).")
    tables = _tables(groups, ["in all"], lambda group: group.equal)
    return Part(
        id="settings", heading="Settings that differ" if differing else "No recorded setting differs", short="Settings",
        body=[*differing, Fold(equal, tables) if with_equal else Note(equal)],
    )  # fmt: skip


def _tables(
    groups: Sequence[SettingGroup], labels: Sequence[str], chosen: Callable[[SettingGroup], Sequence[Setting]]
) -> list[Table]:
    """A table for each group that has such settings, with as many of their values as there are labels."""
    return [
        Table(
            group.name,
            ("setting", *labels),
            [[one.name, *(value or NONE for value in one.values[: len(labels)])] for one in settings],
            most=MOST_ROWS,
        )
        for group in groups
        if (settings := chosen(group))
    ]
