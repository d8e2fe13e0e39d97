"""The arms of an experiment: as [arms] has them, or made from [factors], [vary] or [screen]; each with [treatments]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from mydyno.experiment_file import screen, vary
from mydyno.experiment_file.overrides import ARM_SECTIONS, OF_EVERY_ARM, merged
from mydyno.experiment_file.vary import product
from mydyno.model.definition.experiment import MOST_INSTANCES, ArmSpec, DataSpec, Step
from mydyno.model.definition.problems import Key, Problem, from_validation, unknown
from mydyno.model.definition.server_options import reserved_problems
from mydyno.model.definition.source_build import BuildSpec, incomplete, of_every_arm

OPTION_FILE = "option_file"
ARM_KEYS = ("instances", "control", OPTION_FILE)
"""The keys of an arm besides its treatments."""
EXPANDED: Mapping[str, Callable[[object], tuple[dict[str, Any], list[Problem]]]] = {
    "vary": vary.arms_of,
    "screen": screen.arms_of,
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
