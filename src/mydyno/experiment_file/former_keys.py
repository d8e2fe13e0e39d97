"""Experiment files and --set with sections under their former names: read as if they had the present ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mydyno.experiment_file.toml_source import TomlSource
from mydyno.model.definition.experiment import FORMER_KEYS
from mydyno.model.definition.problems import ExperimentError, Key, Problem


def with_present_keys(source: TomlSource) -> TomlSource:
    """The file with each section under its present name. Raises UserError where it has both names of one."""
    scales = source.tree.get("scale")
    scales = scales if isinstance(scales, Mapping) else {}
    used = {key for table in (source.tree, *scales.values()) if isinstance(table, Mapping) for key in table}
    former = tuple(key for key in FORMER_KEYS if key in used)
    for key in former:
        if (present := FORMER_KEYS[key]) in used:
            problem = Problem((key,), f"is the former name of {present}, which the file has too", allowed=present)
            raise ExperimentError(source.name, [(source.place((key,)), problem)])
    if not former:
        return source
    tree = _renamed(source.tree)
    if scales:
        tree["scale"] = {
            name: _renamed(table) if isinstance(table, Mapping) else table for name, table in scales.items()
        }
    return replace(source, tree=tree, lines={_present(key): line for key, line in source.lines.items()}, former=former)


def former_names(source: TomlSource, settings: Sequence[str]) -> str:
    """A line on the sections that the file or a --set has under a former name; empty if there are none."""
    heads = {setting.partition("=")[0].partition(".")[0].strip() for setting in settings}
    renamed = [f"[{key}] is now [{new}]" for key, new in FORMER_KEYS.items() if key in heads or key in source.former]
    return f"{', '.join(renamed)}; the former name still works" if renamed else ""


def _renamed(table: Mapping[str, Any]) -> dict[str, Any]:
    return {FORMER_KEYS.get(key, key): value for key, value in table.items()}


def _present(key: Key) -> Key:
    place = 2 if key[0] == "scale" else 0
    return tuple(FORMER_KEYS.get(str(part), part) if index == place else part for index, part in enumerate(key))
