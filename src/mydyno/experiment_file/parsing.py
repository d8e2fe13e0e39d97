"""From text to an Experiment; all mistakes are found and reported together before anything starts. And the JSON Schema
of an experiment file, made from the types that validate it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError, create_model
from pydantic.json_schema import models_json_schema

from mydyno.errors import UserError
from mydyno.experiment_file.arms import OPTION_FILE, VARIED, Vocabulary, arms_of, varied_setting
from mydyno.experiment_file.thresholds import limit_schema, parse_table, selector_problems
from mydyno.experiment_file.toml_source import ARM_SECTIONS, OF_EVERY_ARM, TomlSource, merged, parse_set, with_settings
from mydyno.model.definition.experiment import (
    EXISTING,
    FILE_KINDS,
    MOST_INSTANCES,
    DataSpec,
    DesignSpec,
    Experiment,
    HooksSpec,
    ScreenSpec,
    ServerSpec,
    StepSpec,
)
from mydyno.model.definition.host_groups import Address
from mydyno.model.definition.plan import running_instances
from mydyno.model.definition.problems import ExperimentError, Key, Problem, from_validation, unknown
from mydyno.model.definition.server_options import reserved_problems
from mydyno.model.definition.source_build import BuildSpec
from mydyno.model.definition.special_steps import (
    search_problems,
    speed_of,
    statement_problems,
    with_search_defaults,
    with_statement_defaults,
)
from mydyno.model.definition.specs import CompareSpec, GuardSpec, ProfileSpec, SearchSpec, ValiditySpec, VerdictSpec
from mydyno.model.metrics import COMMON_NAMES, common_name, metric_source, split_instance

FILE_ITSELF = "standard"
"""The scale that is the file without overrides."""
DEFAULT_SCALE = "quick"
ASKED_BY_A_RATE = ("qps", "tps", "tpmc")
"""The throughput of an open loop is the rate that was set, unless the server cannot keep up."""


UNREAD = "is read by `mydyno plan` and `mydyno run` only"
"""Of an option file where no file of the user's is read."""
ReadOptionFiles = Callable[[dict[str, Any]], tuple[dict[str, Any], list[Problem]]]
"""The tree with variables from option files, and what is wrong with them."""


SECTIONS = {*Experiment.model_fields} - {"control"} | {"factors", "vary"}
"""The keys of an experiment file's top level."""
FIELDS_AT: dict[str, type[BaseModel]] = {
    "": create_model("Sections", **dict.fromkeys(SECTIONS, (Any, ...))),  # type: ignore[call-overload]
    "server": ServerSpec,
    "server.hooks": HooksSpec,
    "server.build": BuildSpec,
    "data": DataSpec,
    "steps": StepSpec,
    "steps.search": SearchSpec,
    "design": DesignSpec,
    "verdict": VerdictSpec,
    "validity": ValiditySpec,
    "guard": GuardSpec,
    "profile": ProfileSpec,
}


def scales_of(source: TomlSource) -> list[str]:
    """The scales that a file knows: its own and `standard`, the file itself."""
    table = source.tree.get("scale")
    return [FILE_ITSELF, *(table if isinstance(table, dict) else ())]


def parse_experiment(
    source: TomlSource,
    vocabulary: Vocabulary,
    scale: str | None = None,
    settings: Sequence[str] = (),
    read_option_files: ReadOptionFiles | None = None,
) -> Experiment:
    """The experiment at a scale (None: quick where the file has it, else standard) with every --set applied.

    `read_option_files`: adds the variables of option files; without it they are refused.

    Raises UserError that lists every mistake, each with file, line, key, value, what is allowed and the nearest name.
    """
    scales = scales_of(source)
    chosen = scale or (DEFAULT_SCALE if DEFAULT_SCALE in scales else FILE_ITSELF)
    if chosen not in scales:
        problem = unknown(("scale",), "scale", chosen, scales)
        raise UserError(problem.text(source.name))
    tree = {key: value for key, value in source.tree.items() if key != "scale"}
    if chosen != FILE_ITSELF:
        override = source.tree["scale"][chosen]
        if not isinstance(override, dict):
            raise UserError(f"{source.place(('scale', chosen))}: scale.{chosen} must be a table of overrides")
        tree = merged(tree, override)
    tree = _with_existing_data(_with_server_of_arms(with_settings(tree, settings)))
    tree, unread = (read_option_files or _without_option_files)(tree)
    experiment, problems = _validated(tree, vocabulary, chosen)
    problems += unread
    if problems or experiment is None:
        placed = [(_place(source, problem.key, chosen, settings), problem) for problem in problems]
        raise ExperimentError(source.name, tuple(_in_file_order(placed)))
    return experiment


def _with_server_of_arms(tree: dict[str, Any]) -> dict[str, Any]:
    """Where every arm is a server that runs already, the experiment's own is the control's."""
    arms = tree.get("arms")
    if not isinstance(arms, dict):
        return tree
    tables = {name: arm for name, arm in arms.items() if isinstance(arm, dict)}
    if not tables or any("dsn" not in arm for arm in tables.values()):
        return tree
    first = tables.get(str(arms.get("control")), next(iter(tables.values())))
    own = first["dsn"]
    return {**tree, "server": {"dsn": own[0] if isinstance(own, list) and own else own}}


def _with_existing_data(tree: dict[str, Any]) -> dict[str, Any]:
    """Where own files run on a server that runs already, and no data are named, they are those of its schema."""
    server, steps = tree.get("server"), tree.get("steps")
    if "data" in tree or not isinstance(server, dict) or "dsn" not in server or not isinstance(steps, list):
        return tree
    are_files = all(isinstance(step, dict) and any(kind in step for kind in FILE_KINDS) for step in steps)
    return {**tree, "data": {"workload": EXISTING}} if are_files else tree


def _without_option_files(tree: dict[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Where no file of the user's is read."""
    arms = tree.get("arms")
    tables: dict[Key, object] = {(name,): tree.get(name) for name in ("server", OF_EVERY_ARM)}
    tables |= {("arms", name): arm for name, arm in (arms if isinstance(arms, dict) else {}).items()}
    found = [key for key, table in tables.items() if isinstance(table, dict) and "option_file" in table]
    return tree, [Problem((*key, "option_file"), UNREAD) for key in found]


def _place(source: TomlSource, key: Key, scale: str, settings: Sequence[str]) -> str:
    """Where the mistaken value was set: in a --set, in the scale's overrides, or in the file itself."""
    names = tuple(part for part in key if isinstance(part, str))
    for assignment in reversed(settings):
        path = tuple(part for part in parse_set(assignment)[0] if not part.isdigit())
        if names[: len(path)] == path:
            return f"--set {assignment}"
    return source.place(key, scale)


def _in_file_order(problems: list[tuple[str, Problem]]) -> list[tuple[str, Problem]]:
    def line(placed: tuple[str, Problem]) -> int:
        number = placed[0].rpartition(":")[2]
        return int(number) if number.isdigit() else 0

    once = {(problem.key, problem.message): (place, problem) for place, problem in problems}
    return sorted(once.values(), key=line)


def _validated(tree: dict[str, Any], vocabulary: Vocabulary, scale: str) -> tuple[Experiment | None, list[Problem]]:
    problems: list[Problem] = []
    arms, control = arms_of(tree, vocabulary, problems)
    thresholds, found = parse_table(tree.get("thresholds"))
    problems += found
    rest = {key: value for key, value in tree.items() if key not in (*ARM_SECTIONS, OF_EVERY_ARM)}
    rest = with_statement_defaults(with_search_defaults(rest))
    if isinstance(rest.get("question"), str):
        rest["question"] = rest["question"].replace("{setting}", varied_setting(tree.get("vary")))
    experiment = None
    try:
        experiment = Experiment.model_validate(
            {
                **rest,
                "arms": [arm.model_dump() for arm in arms],
                "control": control or "-",
                "thresholds": thresholds,
                **({"screen": tree["screen"]} if "screen" in tree else {}),
                "scale": scale,
            }
        )
    except ValidationError as error:
        problems += from_validation(error, (), FIELDS_AT)
    server = tree.get("server")
    problems += _server_problems(tree, vocabulary)
    problems += reserved_problems(("server", "variables"), server.get("variables") if isinstance(server, dict) else {})
    problems += _data_problems(tree.get("data"), server, vocabulary)
    problems += _step_problems(tree.get("steps"), vocabulary)
    problems += _verdict_problems(tree.get("verdict"), [arm.name for arm in arms], vocabulary)
    if experiment is not None and thresholds and control is not None and not problems:
        problems += selector_problems(thresholds, experiment)
    if experiment is not None and not problems:
        problems += search_problems(experiment) + statement_problems(experiment) + _instance_problems(experiment)
        if all(spec.rate or speed_of(spec) for spec in experiment.steps):
            problems += [
                Problem(
                    ("verdict", "primary"),
                    "is fixed by the rate or the captured times for every arm",
                    metric,
                    allowed='another metric, e.g. "latency_p99_us"',
                )
                for metric in experiment.verdict.primary
                if split_instance(metric)[0] in ASKED_BY_A_RATE
            ]
        for index, spec in enumerate(experiment.steps):
            problems += _speed_problems(index, spec)
            needed = vocabulary.workload_data[spec.workload]
            if spec.workload in FILE_KINDS:
                problems += _file_problems(index, spec, experiment.data, "data" in tree)
            elif needed != experiment.data.workload:
                problems.append(
                    Problem(("steps", index, "workload"), f"needs data.workload = {needed!r}", spec.workload)
                )
        for index, step in enumerate(experiment.resolved_steps):
            problems += [Problem(("steps", index), words, step.id) for words in vocabulary.check_step(step)]
            problems += [
                Problem(("data", "text"), words, experiment.data.text)
                for words in vocabulary.check_data(experiment.data, step)
            ]
    return experiment, problems


def _server_problems(tree: Mapping[str, Any], vocabulary: Vocabulary) -> list[Problem]:
    server = tree.get("server")
    if not isinstance(server, dict):
        return []
    ways = ("name", "basedir", "build", "dsn")
    said = [key for key in ways if server.get(key) is not None]
    if len(said) != 1:
        return [
            Problem(("server",), f"says {', '.join(said) or 'no server'}", allowed=f"exactly one of {', '.join(ways)}")
        ]
    if server.get("card") is not None and said != ["dsn"]:
        return [
            Problem(
                ("server", "card"), "a server on this host is never reached over a network card", allowed="with dsn"
            )
        ]
    if tree.get("guard") is not None and said != ["dsn"]:
        return [Problem(("guard",), "mydyno's own servers have no other users", allowed="with server.dsn")]
    for key in ("ssh", "hooks"):
        if server.get(key) is not None and said != ["dsn"]:
            return [
                Problem(("server", key), "mydyno restarts and samples its own servers by itself", allowed="with dsn")
            ]
    if isinstance(server.get("ssh"), str):
        try:
            Address.parse(server["ssh"])
        except UserError as error:
            return [Problem(("server", "ssh"), error.message, server["ssh"], "user@host or user@host:port")]
    hooks = server.get("hooks")
    if isinstance(hooks, dict) and not any(str(hooks.get(key) or "").strip() for key in ("restore", "restart")):
        return [Problem(("server", "hooks"), "has no command", allowed='restart = "…", restore = "…", or both')]
    if said == ["name"] and server["name"] not in vocabulary.servers:
        return [unknown(("server", "name"), "server", server["name"], vocabulary.servers)]
    return []


def _instance_problems(experiment: Experiment) -> list[Problem]:
    """Arms that have not as many running servers as the control."""
    count = {arm.name: running_instances(arm) for arm in experiment.arms}
    wanted = count[experiment.control]
    return [
        Problem(("arms", name, "dsn"), f"servers: {found}, and of the control {wanted}", allowed="as many of each arm")
        for name, found in count.items()
        if found != wanted
    ]


def _data_problems(data: object, server: object, vocabulary: Vocabulary) -> list[Problem]:
    workload = data.get("workload", "oltp") if isinstance(data, dict) else "oltp"
    if workload == EXISTING and not (isinstance(server, dict) and server.get("dsn")):
        return [Problem(("data", "workload"), "mydyno's own servers have no tables", workload, "with server.dsn")]
    if workload in FILE_KINDS[:2] and isinstance(data, dict) and workload not in data:
        return [Problem(("data", "workload"), "is a key of its own", workload, f'{workload} = "FILE"')]
    if workload in vocabulary.data_workloads:
        return []
    return [unknown(("data", "workload"), "data", workload, vocabulary.data_workloads)]


def _verdict_problems(verdict: object, arms: list[str], vocabulary: Vocabulary) -> list[Problem]:
    """Unknown metrics and arms in verdict.primary and verdict.compare."""
    if not isinstance(verdict, dict):
        return []
    problems = []
    primary = verdict.get("primary")
    for metric in primary if isinstance(primary, list) else [primary]:
        if isinstance(metric, str) and split_instance(common_name(metric))[0] not in vocabulary.metrics:
            problems.append(unknown(("verdict", "primary"), "metric", metric, vocabulary.metrics))
    compared = verdict.get("compare")
    for index, table in enumerate(compared if isinstance(compared, list) else ()):
        try:
            compare = CompareSpec.model_validate(table)
        except ValidationError:
            continue  # reported by the experiment's own validation
        key: Key = ("verdict", "compare", index)
        for position, metric in enumerate(compare.metrics):
            if split_instance(metric)[0] not in vocabulary.metrics or metric_source(metric) is None:
                problems.append(unknown((*key, "metrics", position), "metric", metric, vocabulary.metrics))
        for arm in (*compare.arms, compare.control):
            if arm not in arms:
                problems.append(unknown((*key, "control" if arm == compare.control else "arms"), "arm", arm, arms))
        if compare.control in compare.arms:
            problems.append(Problem((*key, "control"), "is among its own arms", compare.control))
    return problems


def _step_problems(steps: object, vocabulary: Vocabulary) -> list[Problem]:
    problems: list[Problem] = []
    for index, step in enumerate(steps if isinstance(steps, list) else ()):
        if not isinstance(step, dict):
            continue
        of_file = [kind for kind in FILE_KINDS if kind in step]
        if not of_file and "workload" not in step:
            continue
        workload = of_file[0] if of_file else step["workload"]
        if not of_file and workload in FILE_KINDS:
            problems.append(
                Problem(("steps", index, "workload"), "is a key of its own", workload, f'{workload} = "FILE"')
            )
            continue
        if not isinstance(workload, str):
            continue  # already reported as not a text
        if workload not in vocabulary.workload_options:
            problems.append(
                unknown(("steps", index, "workload"), "workload", workload, list(vocabulary.workload_options))
            )
            continue
        driver = step.get("driver", StepSpec.model_fields["driver"].default)
        if driver not in vocabulary.workload_drivers[workload]:
            problems.append(unknown(("steps", index, "driver"), f"driver for {workload}", driver,
                                    vocabulary.workload_drivers[workload]))  # fmt: skip
        problems += _rate_problems(index, step, steps if isinstance(steps, list) else [])
        options = vocabulary.workload_options[workload]
        try:
            options.model_validate(step.get("options", {}))
        except ValidationError as error:
            problems += from_validation(error, ("steps", index, "options"), {"steps": options})
    return problems


def _file_problems(index: int, spec: StepSpec, data: DataSpec, named: bool) -> list[Problem]:
    """A file of the user's runs on any tables, but a capture only on those of its statements; memcached has none."""
    if spec.replay and not named and data.workload != EXISTING:
        allowed = 'data.sql = "dump.sql"; or [data] with sysbench\'s tables and rows'
        return [Problem(("steps", index, "replay"), "the data of its statements are not named", spec.replay, allowed)]
    if data.workload != "kv":
        return []
    allowed = 'data.workload = "oltp" or "tpcc", data.script or data.sql'
    return [Problem(("steps", index, spec.workload), "needs tables", spec.script or spec.sql or spec.replay, allowed)]


def _speed_problems(index: int, spec: StepSpec) -> list[Problem]:
    """Captured times are instead of other ones."""
    if speed_of(spec) is None:
        return []
    others = {"rate": spec.rate, "search": spec.search, "options.rate": spec.options.get("rate")}
    allowed = "either captured times (options.speed) or a rate"
    return [
        Problem(("steps", index, *name.split(".")), "is set, and options.speed is set too", allowed=allowed)
        for name, value in others.items()
        if value
    ]


def _rate_problems(index: int, step: dict[str, Any], steps: list[Any]) -> list[Problem]:
    """A report draws the levels of a workload along one axis: connections of closed loops, or rates of open ones."""
    key: Key = ("steps", index, "rate")
    rate, connections = step.get("rate"), step.get("connections")
    if rate is None:
        return []
    if isinstance(rate, list) and isinstance(connections, list) and len(rate) > 1 and len(connections) > 1:
        return [Problem(key, "is a list, and connections is a list too", rate, allowed="only one of the two as a list")]
    kind = next((key for key in ("workload", *FILE_KINDS) if key in step), "workload")
    others = [one for one in steps if isinstance(one, dict) and one.get(kind) == step.get(kind)]
    if any(one.get("rate") is None for one in others):
        allowed = f"either every step of {step.get(kind)} with a rate, or none: make it two experiments"
        return [Problem(key, "is set, and other steps have none", rate, allowed=allowed)]
    return []


SECTIONS_WITH_SCHEMA = {name: model for name, model in FIELDS_AT.items() if name.isalpha() and name != "steps"}


def experiment_schema(vocabulary: Vocabulary) -> dict[str, Any]:
    """JSON Schema 2020-12 of the file form: [arms], [factors] or [vary], [scale.NAME], names of this version."""
    models: list[type[BaseModel]] = [*SECTIONS_WITH_SCHEMA.values(), StepSpec, ScreenSpec]
    _, definitions = models_json_schema([(model, "validation") for model in models], ref_template="#/$defs/{model}")
    defs = definitions["$defs"]
    defs["ServerSpec"]["properties"]["name"] = {"enum": list(vocabulary.servers)}
    defs["StepSpec"]["properties"]["workload"] = {"enum": list(vocabulary.workload_options)}
    defs["StepSpec"]["properties"]["options"] = {
        "type": "object",
        "properties": {
            name: schema
            for options in vocabulary.workload_options.values()
            for name, schema in options.model_json_schema()["properties"].items()
        },
        # A script has options of its own.
        "additionalProperties": {"type": ["string", "number", "boolean"]},
    }
    defs["StepSpec"]["required"] = []
    defs["StepSpec"]["anyOf"] = [{"required": [key]} for key in ("workload", *FILE_KINDS)]
    primary = defs["VerdictSpec"]["properties"]["primary"]
    named = _one_or_several([*vocabulary.metrics, *COMMON_NAMES])
    defs["VerdictSpec"]["properties"]["primary"] = {"description": primary["description"], **named}
    treatments = {name: adapter.json_schema() for name, adapter in vocabulary.treatments.items()}
    treatments["server"]["oneOf"][0] = {"enum": list(vocabulary.servers)}
    instances = {"type": "integer", "minimum": 1, "maximum": MOST_INSTANCES}
    own_file = {
        OPTION_FILE: {"type": "string", "description": "an option file (my.cnf) whose options are variables of the arm"}
    }
    said = {"instances": instances, "control": {"type": "string"}, **own_file}
    lifted = _lifted(treatments, defs)
    arm = {"type": "object", "properties": {**said, **lifted}, "additionalProperties": False}
    properties: dict[str, Any] = {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,47}$"},
        "base": {"type": "string", "description": "a built-in experiment; the file contains only what differs"},
        "question": {"type": "string", "minLength": 3},
        "description": {"type": "string"},
        "published": {"type": "array", "items": {"type": "string"}},
        "instances": instances,
        **{name: {"$ref": f"#/$defs/{model.__name__}"} for name, model in SECTIONS_WITH_SCHEMA.items()},
        "thresholds": limit_schema(),
        "steps": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/StepSpec"}},
        "arms": {
            "type": "object",
            "properties": {"control": {"type": "string"}},
            "required": ["control"],
            "additionalProperties": arm,
        },
        "treatments": {
            "description": "what every arm has; an arm's own comes before it",
            "type": "object",
            "properties": {**own_file, **lifted},
            "additionalProperties": False,
        },
        "factors": {"type": "object", "properties": {"control": {"type": "string"}}, "required": ["control"]},
        "vary": {
            "type": "object",
            "properties": {name: {"type": "object"} for name in VARIED},
            "additionalProperties": False,
        },
        "screen": {"$ref": "#/$defs/ScreenSpec"},
        "scale": {"type": "object", "additionalProperties": {"type": "object"}},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mydyno experiment",
        "type": "object",
        "properties": properties,
        "if": {"required": ["base"]},
        "else": {
            "required": ["name", "question", "server", "steps"],
            "oneOf": [{"required": [section]} for section in ARM_SECTIONS],
        },
        "additionalProperties": False,
        "$defs": defs,
    }


def _one_or_several(names: list[str]) -> dict[str, Any]:
    return {"anyOf": [{"enum": names}, {"type": "array", "minItems": 1, "maxItems": 4, "items": {"enum": names}}]}


def _lifted(schemas: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """The schemas with their own definitions moved to the common ones."""
    for schema in schemas.values():
        defs.update(schema.pop("$defs", {}))
    return schemas
