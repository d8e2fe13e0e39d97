"""Whether a study that is to be continued is the user's own: `resume` executes what its experiment names."""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from pathlib import Path

from mydyno.errors import UserError
from mydyno.model.definition.experiment import Experiment

HINT = "read its study.json, then add --trust to execute what it names: programs, libraries, scripts, commands"
PATH_KEYS = ("basedir", "source", "repository")
"""Keys whose value is a path also without a slash."""


def check_origin(folder: Path, experiment: Experiment, uid: int) -> None:
    """Raise UserError for a folder of neither this user nor root, and for programs that were brought in the folder."""
    for path in (folder, folder / "study.json", folder / "plan.json"):
        owner = path.stat().st_uid
        if owner not in (uid, 0):
            raise UserError(f"{path} belongs to {_name(owner)}, who decides what is executed", HINT)
    inside = folder.resolve()
    for key, value in _texts(experiment.model_dump(mode="json"), ""):
        is_path = "/" in value or key.rpartition(".")[2] in PATH_KEYS
        if str(inside) in value or (is_path and _is_inside(value, inside)):
            raise UserError(f"{key} = {value!r} is in the study's own folder: it came with the study", HINT)


def _is_inside(value: str, folder: Path) -> bool:
    try:
        return Path(value).expanduser().resolve().is_relative_to(folder)
    except (OSError, RuntimeError, ValueError):  # no path at all
        return False


def _texts(value: object, key: str) -> Iterator[tuple[str, str]]:
    """(dotted key, text) of every text in it."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, key)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
