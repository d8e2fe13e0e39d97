"""The arms of an experiment: as [arms] has them, or made from [factors], [vary] or [screen]; each with [treatments]."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from mydyno.experiment_file.toml_source import ARM_SECTIONS, OF_EVERY_ARM, merged
from mydyno.model.definition.experiment import MOST_INSTANCES, ArmSpec, DataSpec, Scalar, ScreenSpec, Step
from mydyno.model.definition.problems import Key, Problem, from_validation, unknown
from mydyno.model.definition.server_options import reserved_problems
from mydyno.model.definition.source_build import BuildSpec, incomplete, of_every_arm

VARIED = ("variables", "environment", "sysctl")
VARY_EXAMPLE = "e.g. vary.variables.innodb_flush_log_at_trx_commit = [1, 2]"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
NAME_CHARACTERS = 48
MOST_ARMS = 500
"""A larger product of factors is a mistake: such a study would take months."""


def varied_arms(table: object) -> tuple[dict[str, Any], list[Problem]]:
    """`vary`: one server variable, environment variable or sysctl, and its values; each value becomes an arm.

        vary.variables.innodb_flush_log_at_trx_commit = [1, 2]

    The first value is the control. Dots in a name are part of it: vary.sysctl.vm.swappiness = [60, 1].
    """
    # [arms] as a file would contain it, control included; problems. Empty if anything is wrong.
    if not isinstance(table, dict):
        return {}, [Problem(("vary",), "must be a table", table, VARY_EXAMPLE)]
    found = list(_leaves(table, ()))
    if len(found) != 1:
        said = ", ".join(".".join(path) for path, _ in found) or "nothing"
        return {}, [Problem(("vary",), "takes one setting; use [factors] for several", said, VARY_EXAMPLE)]
    (treatment, *rest), values = found[0]
    key = ("vary", treatment, *rest)
    if treatment not in VARIED:
        return {}, [Problem(("vary", treatment), "cannot be used with vary; use [arms]", treatment, ", ".join(VARIED))]
    name = ".".join(rest)
    if not name or not isinstance(values, list) or len(values) < 2:
        return {}, [Problem(key, "needs a list of two values or more", values, VARY_EXAMPLE)]
    if any(isinstance(value, dict | list) for value in values):
        return {}, [Problem(key, "takes plain values", values, VARY_EXAMPLE)]
    arms = {arm_name(rest[-1], value): {treatment: {name: value}} for value in values}
    if len(arms) < len(values):
        return {}, [Problem(key, "results in two arms of the same name", values, "values that differ")]
    return {"control": arm_name(rest[-1], values[0]), **arms}, []


def varied_setting(table: object) -> str:
    """The name of the setting that `vary` has; "of the arms" where it has not one."""
    names = [".".join(path[1:]) for path, _ in _leaves(table, ())] if isinstance(table, dict) else []
    return names[0] if len(names) == 1 else "of the arms"


def arm_name(setting: str, value: object) -> str:
    """An arm's name: the setting's and its value, or the value alone where both are too long for a name.

    What names cannot hold becomes a dash.
    """
    text = ("on" if value else "off") if isinstance(value, bool) else _NOT_IN_NAMES.sub("-", str(value)).strip("-._")
    text = f"minus-{text}" if str(value).startswith("-") else text or "empty"
    whole = f"{setting.rpartition('/')[2]}-{text}".lstrip("-._")
    return whole if len(whole) <= NAME_CHARACTERS else text[:NAME_CHARACTERS]


def _leaves(table: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def product(members: dict[str, Any], problems: list[Problem]) -> tuple[dict[str, dict[str, Any]], dict[str, Key]]:
    """`factors`: each arm is a combination of levels, one of each factor.

    {factor: {level: treatments}} or {treatment: [values]} → {arm: treatments}, named by levels joined with "-"."""
    factors: list[list[tuple[str, dict[str, Any]]]] = []
    for factor, levels in members.items():
        if isinstance(levels, list) and levels:
            factors.append([(str(level), {factor: level}) for level in levels])
        elif isinstance(levels, dict) and levels and all(isinstance(value, dict) for value in levels.values()):
            factors.append(list(levels.items()))
        else:
            problems.append(Problem(("factors", factor), "must be a list of values or a table of levels", levels))
    arms: dict[str, dict[str, Any]] = {}
    count = prod(len(levels) for levels in factors)
    if count > MOST_ARMS:
        problems.append(Problem(("factors",), f"give {count} arms", allowed=f"at most {MOST_ARMS}"))
        return {}, {}
    for combination in itertools.product(*factors):
        treatments: dict[str, Any] = {}
        for _, level in combination:
            treatments = merged(treatments, level)
        name = "-".join(name for name, _ in combination)
        if name in arms:
            problems.append(Problem(("factors",), f"give two arms of the name {name!r}"))
        arms[name] = treatments
    return arms, dict.fromkeys(arms, ("factors",))


MOST_FACTORS = 31
FEWEST_FACTORS = 2
SCREEN_EXAMPLE = "e.g. screen.variables.innodb_flush_log_at_trx_commit = [1, 2]"
CONTROL = "present"
"""The arm with the first value of every variable."""

Row = tuple[int, ...]
"""A run of the design: −1 for the first value of each variable, 1 for the last, 0 for the one between."""


def screened_arms(table: object) -> tuple[dict[str, Any], list[Problem]]:
    """`screen`: which of many variables matter? Their values, multiplied out into the runs of a screening design.

        [screen.variables]
        innodb_flush_log_at_trx_commit = [1, 2]
        innodb_buffer_pool_size = ["256M", "16M"]

    The first value of each is its present setting. Every run of the design is an arm; the run with every first value is
    the control. Plackett and Burman's designs (Biometrika 33 (1946)) show k main effects in little more than k runs,
    each of them from all runs; with the foldover (every run again with all values exchanged) they are free of
    interactions between two variables. Definitive screening designs (Jones and Nachtsheim, Journal of Quality
    Technology 43 (2011)) have a value in the middle too, and are free of those interactions by themselves. The matrices
    are pyDOE's.
    """
    # [arms] as a file would contain it, control included; problems. Empty if anything is wrong.
    try:
        spec = ScreenSpec.model_validate(table)
    except ValidationError as error:
        return {}, from_validation(error, ("screen",), {"screen": ScreenSpec})
    problems = _screen_problems(spec)
    if problems:
        return {}, problems
    arms: dict[str, Any] = {"control": CONTROL}
    for number, row in enumerate(rows_of(spec)):
        values = {name: level_of(levels, x) for (name, levels), x in zip(spec.variables.items(), row, strict=True)}
        arms[f"run-{number:02d}" if number else CONTROL] = {"variables": values}
    return arms, []


def _screen_problems(spec: ScreenSpec) -> list[Problem]:
    count = len(spec.variables)
    if not FEWEST_FACTORS <= count <= MOST_FACTORS:
        allowed = f"{FEWEST_FACTORS} to {MOST_FACTORS}; {SCREEN_EXAMPLE}"
        return [Problem(("screen", "variables"), f"are {count}", allowed=allowed)]
    needed = 3 if spec.design == "definitive" else 2
    problems = []
    for name, levels in spec.variables.items():
        key = ("screen", "variables", name)
        if len(levels) != needed:
            allowed = "three: first, middle, last" if needed == 3 else "two: the present one and another"
            problems.append(Problem(key, f"has {len(levels)} values", list(levels), allowed))
        elif len(set(map(str, levels))) < needed:
            problems.append(Problem(key, "has the same value twice", list(levels), "values that differ"))
    if spec.foldover and spec.design == "definitive":
        allowed = "without foldover: a definitive screening design contains its own"
        problems.append(Problem(("screen", "foldover"), "is set with a definitive design", allowed=allowed))
    return problems


def level_of(levels: Sequence[Scalar], x: int) -> Scalar:
    """The value that a design's −1, 0 or 1 stands for."""
    return levels[0] if x < 0 else levels[-1] if x > 0 else levels[len(levels) // 2]


def rows_of(spec: ScreenSpec) -> list[Row]:
    """The runs of the design, the one with every first value first."""
    # numpy and scipy come with it: half a second that other experiments do not need.
    import pydoe

    count = len(spec.variables)
    if spec.design == "definitive":
        found = [tuple(int(x) for x in row) for row in pydoe.definitive_screening_design(count)]
        return [(-1,) * count, *found]
    rows: list[Row] = []
    columns = count
    while not rows:
        try:
            rows = [tuple(-int(x) for x in row[:count]) for row in pydoe.pbdesign(columns)]
        except ValueError:  # no design of that many runs (28, 36, …): the next larger one
            columns += 4
    if spec.foldover:
        rows += [tuple(-x for x in row) for row in rows]
    base = (-1,) * count
    return [base, *(row for row in rows if row != base)]


def coded(spec: ScreenSpec, arms: Sequence[ArmSpec]) -> dict[str, Row]:
    """{arm: its row of the design}, from the values that the arms set."""

    def x(levels: Sequence[Scalar], value: object) -> int:
        return -1 if value == levels[0] else 1 if value == levels[-1] else 0

    return {
        arm.name: tuple(x(levels, _variables_of(arm).get(name)) for name, levels in spec.variables.items())
        for arm in arms
    }


def _variables_of(arm: ArmSpec) -> Mapping[str, Any]:
    values: Mapping[str, Any] = arm.treatments.get("variables", {})
    return values


OPTION_FILE = "option_file"
ARM_KEYS = ("instances", "control", OPTION_FILE)
"""The keys of an arm besides its treatments."""
EXPANDED: Mapping[str, Callable[[object], tuple[dict[str, Any], list[Problem]]]] = {
    "vary": varied_arms,
    "screen": screened_arms,
}
"""Sections that arms are made from, by what they contain."""


def arms_of(tree: dict[str, Any], vocabulary: Vocabulary, problems: list[Problem]) -> tuple[list[ArmSpec], str | None]:
    """The arms of [arms], of [vary] or [screen], or the full product of [factors]; and the control's name.

    Each has what [treatments] sets; what it sets itself comes before that.
    """
    present = [section for section in ARM_SECTIONS if section in tree]
    if len(present) != 1:
        problems.append(
            Problem(("arms",), "use exactly one of [arms], [factors], [vary] and [screen]", allowed="one of the four")
        )
        return [], None
    section = present[0]
    table = tree[section]
    if section in EXPANDED:
        table, found = EXPANDED[section](table)
        if found:
            problems += found
            return [], None
    if not isinstance(table, dict):
        problems.append(Problem((section,), "must be a table", table))
        return [], None
    members = {name: value for name, value in table.items() if name != "control"}
    if section != "factors":
        named = {name: value if isinstance(value, dict) else {"": value} for name, value in members.items()}
        keys: dict[str, Key] = {name: (section,) if section in EXPANDED else (section, name) for name in named}
    else:
        named, keys = product(members, problems)
    common = tree.get(OF_EVERY_ARM, {})
    if not isinstance(common, dict):
        problems.append(Problem((OF_EVERY_ARM,), "must be a table", common))
        common = {}
    shared = {key: value for key, value in common.items() if key == OPTION_FILE}
    common = {key: value for key, value in common.items() if key != OPTION_FILE}
    _check_treatments((OF_EVERY_ARM,), common, vocabulary, problems, set(common))
    arms = []
    own = {name: {key: value for key, value in said.items() if key not in ARM_KEYS} for name, said in named.items()}
    whole = of_every_arm(tree, {name: merged(common, said) for name, said in own.items()})
    for name, said in named.items():
        treatments = whole[name]
        _check_treatments(keys[name], treatments, vocabulary, problems, set(said))
        problems += _arm_key_problems(keys[name], name, said, list(named))
        try:
            beside = shared | {key: said[key] for key in ARM_KEYS if key in said}
            arms.append(ArmSpec(name=name, treatments=treatments, **beside))
        except ValidationError as error:
            problems += [
                Problem(keys[name], found.message, name, found.allowed) for found in from_validation(error, (), {})
            ]
    control = table.get("control")
    if control is None:
        problems.append(Problem((section, "control"), "is missing: name the arm that the others are compared with",
                                allowed=", ".join(named)))  # fmt: skip
    elif not isinstance(control, str) or control not in named:
        problems.append(unknown((section, "control"), "arm", control, list(named)))
    if not named:
        problems.append(Problem((section,), "has no arm"))
    return arms, control if isinstance(control, str) else None


def _arm_key_problems(key: Key, name: str, said: dict[str, Any], arms: list[str]) -> list[Problem]:
    """What is wrong with an arm's number of instances and its own control."""
    problems = []
    count = said.get("instances")
    if count is not None and (type(count) is not int or not 1 <= count <= MOST_INSTANCES):
        problems.append(Problem((*key, "instances"), "not a number of servers", count, f"1 to {MOST_INSTANCES}"))
    control = said.get("control")
    if control is not None and (control not in arms or control == name):
        problems.append(unknown((*key, "control"), "other arm", control, [arm for arm in arms if arm != name]))
    return problems


def _check_treatments(
    key: Key, treatments: dict[str, Any], vocabulary: Vocabulary, problems: list[Problem], said: Set[str]
) -> None:
    """`said`: the keys of the arm itself; what it has beside them is that of every arm, and the experiment's build."""
    for name, value in treatments.items():
        if name == "":
            problems.append(Problem(key, 'must be a table of treatments, e.g. { allocator = "jemalloc" }', value))
        elif name not in vocabulary.treatments:
            if name in said:  # else [treatments] itself is reported
                problems.append(unknown((*key, name), "treatment", name, list(vocabulary.treatments)))
        else:
            try:
                vocabulary.treatments[name].validate_python(value)
            except ValidationError as error:
                if name in said:  # else [treatments] or [server] itself is reported
                    problems += _setting_problems(from_validation(error, (*key, name), {}), (*key, name), value)
            else:
                if name == "variables" and name in said:
                    problems += reserved_problems((*key, name), value)
                if key != (OF_EVERY_ARM,):  # each arm's build is whole with those of [treatments] and [server]
                    problems += _build_problems((*(key if name in said else ()), name, "build"), value)


def _build_problems(key: Key, server: object) -> list[Problem]:
    """What an arm's own build lacks, with the experiment's for what it does not set."""
    if key[-2] != "server" or not isinstance(server, dict) or not isinstance(server.get("build"), dict):
        return []
    return incomplete(key, BuildSpec.model_validate(server["build"]))


def _setting_problems(found: list[Problem], key: Key, value: object) -> list[Problem]:
    """For a value that fits none of several forms, the errors of the form that was probably meant.

    pydantic puts the form's name behind the treatment's key; it means nothing to the file's author.
    """
    table = value if isinstance(value, dict) else None

    def inside(problem: Problem) -> Key:
        rest = problem.key[len(key) :]
        form = bool(rest) and rest[0] not in (table or {}) and ("[" in str(rest[0]) or str(rest[0])[0].isupper())
        return rest[1:] if form else rest

    meant = [problem for problem in found if bool(inside(problem)) == (table is not None)] or found[:1]
    if table is None:
        return [replace(problem, key=key) for problem in [one for one in meant if one.nearest] or meant[:1]]
    return [replace(problem, key=(*key, *inside(problem))) for problem in meant]


@dataclass(frozen=True)
class Vocabulary:
    """The names that an experiment may use; supplied by the layers above the model."""

    servers: Sequence[str]
    data_workloads: Sequence[str]
    workload_options: Mapping[str, type[BaseModel]]
    workload_data: Mapping[str, str]
    """Workload → the data that it needs."""
    workload_drivers: Mapping[str, Sequence[str]]
    treatments: Mapping[str, TypeAdapter[Any]]
    """Treatment name → how its value is validated."""
    metrics: Sequence[str]
    """Metrics that can have a verdict: higher or lower is better."""
    check_step: Callable[[Step], list[str]]
    """What a step's driver cannot do."""
    check_data: Callable[[DataSpec, Step], list[str]]
    """Data that a step's driver cannot make or keep as they are."""
