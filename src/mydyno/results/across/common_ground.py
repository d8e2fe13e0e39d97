"""What studies, or arms of one, have in common, why the rest cannot be compared, and by kind how their hosts' facts and
servers' settings differ.

Two studies have a contrast in common if metric, step, arm and control have the same names, the step loads the same
workload with the same options, and the metric means the same. Data, server, settings and host may differ: they are what
a comparison is about, and are listed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mydyno.drivers.catalogue import DRIVERS
from mydyno.model.definition.experiment import ArmSpec, DataSpec, Step
from mydyno.model.definition.quantities import format_bytes, format_duration
from mydyno.model.stored.comparison import Setting, SettingGroup
from mydyno.model.stored.records import RunRecord
from mydyno.model.stored.summary import EffectRecord
from mydyno.results.across.saved import SavedStudy

FIRST_FACTS = ("kernel", "cpu_model", "cpus", "cpu_governor", "memory_bytes")
"""Facts that are named first where they differ."""
NOT_COMPARED = ("hostname", "load_average_before", "synced_writes_per_s")

Fact = str | bool


def comparable_facts(facts: Mapping[str, Any]) -> dict[str, Fact]:
    """The facts of one host; of the file system its type. Other facts with several parts are left out.

    Values are compared as they are printed, so that two sizes of memory that read alike are equal.
    """
    found: dict[str, Fact] = {}
    for name, value in facts.items():
        if name == "filesystem" and isinstance(value, Mapping):
            found[name] = str(value.get("type", ""))
        elif isinstance(value, bool):
            found[name] = value
        elif name.endswith("_bytes") and isinstance(value, int | float):
            found[name] = format_bytes(float(value))
        elif isinstance(value, str | int | float):
            found[name] = str(value)
    return {name: value for name, value in found.items() if value != ""}


def fact_differences(hosts: Mapping[str, Mapping[str, Any]], groups: Sequence[str]) -> dict[str, dict[str, Fact]]:
    """{fact: {group: value}} of what differs between the server hosts, kernel, CPU, governor, memory first."""
    known = {group: comparable_facts(hosts[group]) for group in groups if group in hosts}
    names = dict.fromkeys([*FIRST_FACTS, *sorted({name for facts in known.values() for name in facts})])
    found = {}
    for name in names:
        values = {group: facts[name] for group, facts in known.items() if name in facts}
        if name not in NOT_COMPARED and (len(set(values.values())) > 1 or 0 < len(values) < len(known)):
            found[name] = values
    return found


PLACES = re.compile(
    r"(_dir|_file|_path|_home|datadir|basedir|tmpdir|socket|pid_file|hostname|_uuid|timestamp|server_id)"
)
NOT_PERFORMANCE = re.compile(
    r"^(version|innodb_version|license|system_time_zone|character_sets_dir|ft_|optimizer_trace|debug|ssl_|tls_)"
)
MATTERS = re.compile(
    r"^(innodb_|binlog_|sync_|log_bin$|performance_schema$|query_cache|table_open_cache|thread_|join_buffer|sort_buffer|"
    r"read_|tmp_table|max_heap|key_buffer|transaction_|tx_isolation|optimizer_switch|large_pages|gtid_mode|"
    r"default_authentication|character_set_server|collation_server|sql_mode|storage_engine|flush)"
)
SYNCED_WRITES = (
    "innodb_flush_log_at_trx_commit", "log_bin", "sync_binlog", "innodb_doublewrite", "innodb_flush_method",
)  # fmt: skip
"""How often a commit waits for the disk and what it writes: what explains most, first."""
SHOWN_LETTERS = 60


def meaning_of(value: str) -> str | float:
    """A value without its spelling: 10 and 10.000000 are equal, and so are On and ON."""
    try:
        return float(value)
    except ValueError:
        return value.lower()


def shapes_performance(name: str) -> bool:
    """Whether a variable can change performance; paths, identities and versions cannot."""
    return bool(MATTERS.search(name)) and not PLACES.search(name) and not NOT_PERFORMANCE.search(name)


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


Contrast = tuple[str, str, str, str]
"""(metric, step, arm, control)."""


@dataclass(frozen=True, slots=True)
class Refused:
    """What is not the same in all studies: they lack it (`having` are the places of the others), it has not been
    evaluated yet (`early`), or each defines it in its own way.
    """

    kind: Literal["step", "metric", "contrast"]
    name: str
    control: str = ""
    """Of a contrast."""
    having: tuple[int, ...] = ()
    early: tuple[int, ...] = ()
    definitions: tuple[str, ...] = ()
    """Options of a step in each study, or meaning and unit of a metric."""


@dataclass(frozen=True)
class CommonGround:
    """Steps and contrasts that all studies have, in the order of the first one, and what was refused."""

    steps: tuple[Step, ...]
    contrasts: tuple[Contrast, ...]
    refused: tuple[Refused, ...]

    @property
    def step_ids(self) -> tuple[str, ...]:
        """The names of the common steps."""
        return tuple(step.id for step in self.steps)

    @property
    def unlike_metrics(self) -> frozenset[str]:
        """The metrics that not all studies have with one meaning."""
        return frozenset(one.name for one in self.refused if one.kind == "metric")


def common_ground(studies: Sequence[SavedStudy]) -> CommonGround:
    """What two or more studies have in common."""
    steps, refused = _steps(studies)
    metrics, unlike = _metrics(studies)
    unlike += _metrics_of_some(studies)
    refused += unlike
    ids = {step.id for step in steps}
    of_each = [effects_by_contrast(study) for study in studies]
    contrasts = []
    for contrast in of_each[0]:
        metric, step, *_ = contrast
        if step not in ids or metric not in metrics:
            continue
        if all(contrast in found for found in of_each):
            contrasts.append(contrast)
    if steps:
        refused += _arms(studies)
    return CommonGround(tuple(steps), tuple(contrasts), tuple(refused))


def effects_by_contrast(study: SavedStudy) -> dict[Contrast, EffectRecord]:
    """The study's effects; none before the first look of a study with looks."""
    if study.before_first_look:
        return {}
    return {(one.metric, one.step, one.arm, one.control): one for one in study.summary.effects}


def differing_definition(studies: Sequence[SavedStudy], arm: str) -> tuple[str, ...]:
    """Which of an arm's treatments differ between studies: "variables.innodb_io_capacity"."""
    known = [treatments(study.study.experiment.arm(arm)) for study in studies]
    every = dict.fromkeys(name for one in known for name in one)
    return tuple(name for name in every if len({one.get(name) for one in known}) > 1)


def same_control(first: SavedStudy, second: SavedStudy, control: str) -> bool:
    """Whether a control is the same server with the same settings, treatments, data and host in both studies."""
    if differing_definition((first, second), control) or first.server_of.get(control) != second.server_of.get(control):
        return False
    runs = [next((run for run in one.runs if run.arm == control), None) for one in (first, second)]
    variables = [server_variables(run) for run in runs]
    builds = [one.study.versions.get("server") for one in (first, second)]
    data = [one.study.experiment.data for one in (first, second)]
    return (
        None not in runs
        and variables[0] == variables[1]
        and builds[0] == builds[1]
        and data[0] == data[1]
        and first.host == second.host
    )


def _steps(studies: Sequence[SavedStudy]) -> tuple[list[Step], list[Refused]]:
    known = [{step.id: step for step in study.study.experiment.resolved_steps} for study in studies]
    common, refused = [], []
    for name in dict.fromkeys(name for steps in known for name in steps):
        having = tuple(place for place, steps in enumerate(known) if name in steps)
        if len(having) < len(known):
            refused.append(Refused("step", name, having=having))
            continue
        options = tuple(_options(steps[name]) for steps in known)
        if len(set(options)) > 1:
            refused.append(Refused("step", name, definitions=options))
            continue
        common.append(known[0][name])
    return common, refused


def _options(step: Step) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(step.options.items()))


def _metrics(studies: Sequence[SavedStudy]) -> tuple[set[str], list[Refused]]:
    """(metrics that mean the same in all studies, those that do not with the reason)."""
    known = [study.summary.metrics for study in studies]
    common, refused = set(), []
    for name in dict.fromkeys(name for metrics in known for name in metrics):
        defined = [metrics[name] for metrics in known if name in metrics]
        if len(defined) < len(known):
            continue
        if len({(one.unit, one.better, one.description) for one in defined}) > 1:
            definitions = tuple(f"{one.description} ({one.unit})" for one in defined)
            refused.append(Refused("metric", name, definitions=definitions))
            continue
        common.add(name)
    return common, refused


def _metrics_of_some(studies: Sequence[SavedStudy]) -> list[Refused]:
    """Metrics that have verdicts in some of the studies and do not exist in others."""
    judged = [
        dict.fromkeys(one.metric for one in effects_by_contrast(study).values() if one.verdict) for study in studies
    ]
    refused = []
    for name in dict.fromkeys(name for of in judged for name in of):
        having = tuple(place for place, study in enumerate(studies) if name in study.summary.metrics)
        if len(having) < len(studies):
            refused.append(Refused("metric", name, having=having))
    return refused


def _arms(studies: Sequence[SavedStudy]) -> list[Refused]:
    """Contrasts with verdicts that not all studies have."""
    refused = []
    pairs = [list(dict.fromkeys((arm, control) for _, _, arm, control in effects_by_contrast(one))) for one in studies]
    for arm, control in dict.fromkeys(pair for of in pairs for pair in of):
        having = tuple(place for place, of in enumerate(pairs) if (arm, control) in of)
        missing = [place for place, of in enumerate(pairs) if (arm, control) not in of]
        if missing:
            early = tuple(place for place in missing if studies[place].before_first_look)
            refused.append(Refused("contrast", arm, control, having, early))
    return refused
