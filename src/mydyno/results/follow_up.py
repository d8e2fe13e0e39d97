"""The experiment that follows a screening study: all combinations of the variables that matter, as a TOML file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mydyno.experiment_file.vary import arm_name
from mydyno.model.definition.experiment import Experiment, Scalar
from mydyno.model.stored.screening import ScreenRecord

FOLLOW_UP_FILE = "follow-up.toml"
DEFAULT_TIME_S = 1200.0
LEFT_OUT = ("name", "question", "description", "published", "instances", "control", "arms", "screen", "scale",
            "thresholds")  # fmt: skip


def follow_up_toml(experiment: Experiment, record: ScreenRecord, study: str) -> str:
    """The text of the file; the other variables keep their present values. Empty if no variable is active."""
    spec = experiment.screen
    if spec is None or not record.follow_up:
        return ""
    levels = {name: (spec.variables[name][0], spec.variables[name][-1]) for name in record.follow_up}
    present = {name: values[0] for name, values in spec.variables.items() if name not in levels}
    tree = experiment.model_dump(mode="json", exclude_defaults=True, exclude=set(LEFT_OUT))
    tree.setdefault("server", {})["variables"] = {**present, **experiment.server.variables}
    tree["steps"] = [step.model_dump(mode="json", exclude_defaults=True) for step in experiment.steps]
    tree.setdefault("design", {}).setdefault("time", DEFAULT_TIME_S)
    lines = [
        f"# All combinations of the variables that matter in the screening study {study}.",
        f"# Run it with: mydyno run studies/{study}/follow-up.toml",
        f"name = {_value(f'{experiment.name}-follow-up'[:48])}",
        f"question = {_value(f'Which combination of {_listing(list(levels))} is best?')}",
    ]
    tables: dict[str, Any] = {key: value for key, value in tree.items() if key != "steps"}
    for key, value in tables.items():
        lines += ["", f"[{key}]", *_entries(value)]
    for step in tree["steps"]:
        lines += ["", "[[steps]]", *_entries(step)]
    if len(levels) == 1:
        ((name, values),) = levels.items()
        lines += ["", f"[vary.variables]\n{name} = {_value(list(values))}"]
        return "\n".join(lines) + "\n"
    control = "-".join(_level(values[0]) for values in levels.values())
    lines += ["", "[factors]", f"control = {_value(control)}"]
    for name, values in levels.items():
        lines += ["", f"[factors.{name}]"]
        lines += [f"{_value(_level(one))} = {_value({'variables': {name: one}})}" for one in values]
    return "\n".join(lines) + "\n"


def _level(value: Scalar) -> str:
    return arm_name("", value).strip("-")


def _listing(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in table.items() if value is not None]


def _value(value: Any) -> str:
    """A value as TOML writes it in one line; JSON's strings, numbers and lists are TOML's too."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(one)}" for key, one in value.items() if one is not None) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False)
