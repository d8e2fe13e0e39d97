"""`base = "variable"`: a file that says only what is otherwise than in a built-in experiment."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from mydyno.experiment_file.overrides import ARM_SECTIONS, merged


def based_on(under: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The built-in experiment's tree with the file's own laid over it; lists are replaced, tables are merged.

    Where the file has arms, the base's are gone, and with them, in its scales too, what names them.
    """
    tree = copy.deepcopy(dict(under))
    if any(section in own for section in ARM_SECTIONS):
        for table in (tree, *tree.get("scale", {}).values()):
            _without_arms(table)
    return merged(tree, {key: value for key, value in own.items() if key != "base"})


def _without_arms(table: dict[str, Any]) -> None:
    for section in ARM_SECTIONS:
        table.pop(section, None)
    if isinstance(table.get("verdict"), dict):
        table["verdict"].pop("compare", None)
