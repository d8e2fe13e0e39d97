"""The files that an experiment names, on the hosts of a study: scripts, SQL, captures, dumps, libraries to preload.

They are those of the controller. On a host they lie below `files` in the study's folder, at their own paths, so that a
file finds those beside it:

    /home/ann/load/shop.lua  →  ~/.cache/mydyno/fleet/STUDY/files/home/ann/load/shop.lua

Files that these name are copied with them, as far as their names can be read: `csv('FILE', …)` in SQL files and in
rules for rows; modules that a script requires by a literal name; files beside a script whose names are literals in it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mydyno.errors import HostError, UserError
from mydyno.files.atomic import sha256_of
from mydyno.fleet.messages import LINE_LIMIT_BYTES
from mydyno.model.definition.experiment import FILE_KINDS, DataSpec, Experiment, StepSpec
from mydyno.model.definition.quantities import format_bytes
from mydyno.model.stored.records import StudyRecord
from mydyno.treatments.catalogue import treatments_of
from mydyno.workloads.files import SYSBENCH_FOLDERS, csv_files_of, is_dump, modules_of

FOLDER = "files"
"""Below the study's folder on a host."""
NEEDED = "a study needs its files until it ends, and copies them to its other hosts"
KEPT_BYTES = 1 << 20
"""Files up to this size are kept with the study; of the others it has the checksum alone."""
MOST_ESCAPED = 7
"""Characters that JSON in JSON makes of one, at most."""
LINE_RESERVE_BYTES = 1 << 20
"""Bytes of a line to an agent that are reserved for what is not the files."""
_PARTS = re.compile(r"([: ])")
"""What separates the libraries of LD_PRELOAD."""
Named = TypeVar("Named", StepSpec, DataSpec)


@dataclass(frozen=True)
class StudyFile:
    """One file."""

    path: Path
    """Path on the controller."""
    name: str
    """Path below FOLDER on a host."""
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class StudyFiles:
    """All files of a study."""

    files: tuple[StudyFile, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    """What the experiment calls a file → its name below FOLDER."""
    script_folders: tuple[str, ...] = ()
    """Folders below FOLDER in which the modules of scripts are."""

    @property
    def checksums(self) -> dict[str, str]:
        """Path on the controller → SHA-256, as study.json has them."""
        return {str(one.path): one.sha256 for one in self.files}

    @property
    def of_scripts(self) -> StudyFiles:
        """The files that an agent on a client host may open by itself; all else comes with its job."""
        inside = tuple(f"{folder}/" for folder in self.script_folders)
        return StudyFiles(
            tuple(one for one in self.files if one.name.startswith(inside)), script_folders=self.script_folders
        )

    def at(self, root: str) -> dict[str, str]:
        """What the experiment calls a file → its path on a host whose FOLDER is `root`."""
        return {called: f"{root}/{name}" for called, name in self.names.items()}

    def lua_path(self, root: str | None) -> dict[str, str]:
        """The environment with which an agent finds modules; `root` None: at their own paths."""
        if not self.script_folders:
            return {}
        patterns = [f"{root or ''}/{folder}/?.lua" for folder in self.script_folders]
        return {"LUA_PATH": ";".join([*patterns, ";"])}

    def copy_to(self, root: Path) -> None:
        """Copy all of them into a FOLDER of this host. Raises HostError."""
        for one in self.files:
            try:
                (root / one.name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(one.path, root / one.name)
            except OSError as error:
                raise HostError(f"copying {one.path} to {root}: {error.strerror}") from error
            if sha256_of(root / one.name) != one.sha256:
                raise HostError(f"the copy of {one.path} is damaged, or the file was changed meanwhile")

    def keep_in(self, study: Path) -> None:
        """Copy the files that are not large into FOLDER of a study's folder, for its readers. Raises HostError."""
        small = tuple(one for one in self.files if one.size_bytes <= KEPT_BYTES)
        StudyFiles(small).copy_to(study / FOLDER)

    def check_unchanged(self, study: StudyRecord) -> None:
        """Raise UserError for a file that is another than when the study began."""
        for path, sha256 in self.checksums.items():
            if study.files.get(path, sha256) != sha256:
                raise UserError(
                    f"{path} was changed after the study began: its next blocks would measure something else",
                    "restore the file, or begin a new study",
                )


def find_files(
    experiment: Experiment,
    agents: bool = False,
    *,
    sysbench: Sequence[Path] = SYSBENCH_FOLDERS,
    line_bytes: int = LINE_LIMIT_BYTES,
) -> StudyFiles:
    """The files of an experiment, with their checksums. Reads each of them whole.

    Raises UserError for one that is missing; with `agents`, also for a step whose files are too large for their job:
    an agent gets them in one line of `line_bytes`. `sysbench`: where modules of its package are.
    """
    found: dict[str, Path] = {}
    names: dict[str, str] = {}
    folders: dict[str, None] = {}
    steps = [(f"steps[{index}]", step) for index, step in enumerate(experiment.steps)]
    for where, table in (*steps, ("data", experiment.data)):
        for kind in FILE_KINDS:
            called = getattr(table, kind, None)
            if called is None:
                continue
            path = _present(called, f"{where}.{kind}")
            mine = {_name(path): path}
            if kind == "script":
                folders[_name(path.parent)] = None
                mine |= {_name(place): file for place, file in modules_of(path, sysbench).items()}
            elif kind == "sql" and not (isinstance(table, DataSpec) and is_dump(table)):
                mine |= {_name(file): _present(str(file), f"{where}.{kind}: csv") for file in csv_files_of(path)}
            if agents and isinstance(table, StepSpec):
                _check_size(f"{where}.{kind}", mine.values(), line_bytes - LINE_RESERVE_BYTES)
            found |= mine
            names[called] = _name(path)
    for arm in experiment.arms:
        for treatment in treatments_of(arm):
            for called in treatment.files:
                path = _present(called, f"arms.{arm.name}.{treatment.name}")
                found[_name(path)] = path
                names[called] = _name(path)
    files = tuple(StudyFile(path, name, sha256_of(path), path.stat().st_size) for name, path in sorted(found.items()))
    return StudyFiles(files, names, tuple(folders))


def on_host(study: StudyRecord, there: Mapping[str, str]) -> StudyRecord:
    """The record as a host needs it: with the paths of its own copies."""
    experiment = with_paths(study.experiment, there)
    versions = {there.get(name, name): version for name, version in study.versions.items()}
    return study.model_copy(update={"experiment": experiment, "versions": versions})


def with_paths(experiment: Experiment, there: Mapping[str, str]) -> Experiment:
    """The experiment with files at other paths; `there`: path as it is → path as it is to be."""
    arms = tuple(arm.model_copy(update={"treatments": _replaced(arm.treatments, there)}) for arm in experiment.arms)
    steps = tuple(_with_path(step, there) for step in experiment.steps)
    data = _with_path(experiment.data, there)
    return experiment.model_copy(update={"arms": arms, "steps": steps, "data": data})


def _with_path(table: Named, there: Mapping[str, str]) -> Named:
    named = {kind: getattr(table, kind, None) for kind in FILE_KINDS}
    return table.model_copy(update={kind: there[path] for kind, path in named.items() if path and path in there})


def _replaced(value: Any, there: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(one, there) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_replaced(one, there) for one in value)
    return "".join(there.get(part, part) for part in _PARTS.split(value)) if isinstance(value, str) else value


def _name(path: Path) -> str:
    return str(path).lstrip("/")


def _present(called: str, where: str) -> Path:
    path = Path(os.path.normpath(Path(called).absolute()))
    if not path.is_file():
        raise UserError(f"{where}: {called}: no such file on this host", NEEDED)
    if not os.access(path, os.R_OK):
        raise UserError(f"{where}: {called} cannot be read", NEEDED)
    return path


def _check_size(where: str, files: Iterable[Path], most: int) -> None:
    """An agent gets the files of its step in one line, as JSON in JSON. Raises UserError."""
    paths = list(files)
    if MOST_ESCAPED * sum(path.stat().st_size for path in paths) <= most:
        return
    needed = 0
    for path in paths:
        size = path.stat().st_size
        if size <= most:
            text = path.read_text(encoding="utf-8", errors="replace")
            size = len(json.dumps(json.dumps(text, ensure_ascii=False), ensure_ascii=False).encode())
        needed += size
    if needed > most:
        raise UserError(
            f"{where}: {format_bytes(needed)} as the clients get it, at most {format_bytes(most)} can be sent to them",
            "use a shorter file, or remove `clients` from the [[group]] tables",
        )
