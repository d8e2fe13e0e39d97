"""An experiment while it is written in the browser: checked as `mydyno plan` checks it, and previewed."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mydyno.errors import MydynoError
from mydyno.execution.planning.plan_text import OBSTACLE, plan_parts
from mydyno.execution.planning.preview import preview
from mydyno.experiment_file.parsing import UNREAD, parse_experiment, scales_of
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import built_in, experiment_of, source_from_text, vocabulary
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.problems import NAME_PATTERN, ExperimentError
from mydyno.web.rendering import FOLDER

TEMPLATES = {
    "one-variable": "one variable",
    "two-option-files": "two option files (my.cnf)",
    "two-servers": "two servers",
    "two-allocators": "two allocators",
    "my-sql": "my SQL",
    "my-log": "my log",
}
"""{file below designs/: what it compares, or loads}."""
FIRST = (OBSTACLE, "arms", "time")
"""What of a plan is shown at once, not in a fold."""
NOT_READ = (
    "The experiment is valid, but for the files that it names: this page reads them only with `mydyno serve "
    "--allow-run`. `mydyno plan` reads them."
)


@dataclass(frozen=True)
class Draft:
    """An experiment as it is at the moment."""

    toml: str
    scale: str | None = None
    """None: quick where the file has it, else standard."""
    time: str = ""

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> Draft:
        """From what the page sent. Raises ValueError for what is no such thing."""
        values = [sent.get(name, "") for name in ("toml", "scale", "time")]
        if "toml" not in sent or not all(isinstance(value, str) for value in values):
            raise ValueError("toml, scale and time are texts")
        toml, scale, time = values
        return cls(toml, scale.strip() or None, time.strip())

    @property
    def file_name(self) -> str:
        """Name of the file, from the experiment's name where that is a possible one."""
        found = re.search(r'^name = "([^"]*)"', self.toml, re.MULTILINE)
        return f"{found[1] if found and re.fullmatch(NAME_PATTERN, found[1]) else 'experiment'}.toml"

    @property
    def options(self) -> list[str]:
        """Options for `mydyno plan` and `mydyno run`."""
        return [*(["--scale", self.scale] if self.scale else []), *(["--time", self.time] if self.time else [])]

    @property
    def command(self) -> str:
        """What starts the study in a terminal."""
        return shlex.join(["mydyno", "run", self.file_name, *self.options])


def start_text(name: str) -> str | None:
    """The text of a template or a built-in experiment; None if there is none of that name."""
    if name in TEMPLATES:
        return (FOLDER / "designs" / f"{name}.toml").read_text(encoding="utf-8")
    path = built_in().get(name)
    return None if path is None else path.read_text(encoding="utf-8")


def checked(draft: Draft, trusted: bool) -> dict[str, Any]:
    """What the page shows of a draft: the mistakes or the plan, and the command that starts it.

    `trusted`: files that it names are read, and servers that it names are started to learn their variables.
    """
    shown: dict[str, Any] = {
        "file": draft.file_name, "command": draft.command, "scales": [], "mistakes": None, "plan": None
    }  # fmt: skip
    try:
        source = source_from_text(draft.file_name, draft.toml)
        shown["scales"] = scales_of(source)
        shown["plan"] = _plan(draft, source, trusted)
    except ExperimentError as error:
        found = [_mistake(draft, problem.text(place)) for place, problem in error.mistakes]
        shown["mistakes"] = {"title": error.title, "found": found, "hint": error.hint}
    except MydynoError as error:
        found = [_mistake(draft, error.message)]
        shown["mistakes"] = {"title": f"a mistake in {draft.file_name}", "found": found, "hint": error.hint}
    return shown


def _mistake(draft: Draft, text: str) -> dict[str, Any]:
    """A message without the file's name, and its line, if it has one."""
    text = text.removeprefix(f"{draft.file_name}:").lstrip()
    at = re.match(r"(\d+): ", text)
    line = at or re.search(r"at line (\d+)", text)
    end = len(draft.toml.splitlines()) if "(at end of document)" in text else None
    return {"line": int(line[1]) if line else end, "text": text[at.end() :] if at else text}


def _plan(draft: Draft, source: TomlSource, trusted: bool) -> dict[str, Any]:
    """Raises MydynoError for an experiment that cannot be planned."""
    settings = [f"design.time={draft.time}"] if draft.time else []
    if trusted:
        experiment = experiment_of(source, draft.scale, settings, Path("/"))
    else:
        try:
            experiment = parse_experiment(source, vocabulary(), draft.scale, settings)
        except ExperimentError as error:
            if any(problem.message != UNREAD for _, problem in error.mistakes):
                raise
            return _shown("", [], [("files", (NOT_READ,))])
        if any(step.replay for step in experiment.steps):
            return _shown(_title(experiment), [], [("files", (NOT_READ,))])
    made = asyncio.run(preview(experiment, HostPaths.resolve(), start_programs=trusted))
    parts = plan_parts(experiment, made.plan, made.forecast)
    entries = [(entry.label, entry.lines) for part in parts for entry in part]
    return _shown(_title(experiment), made.forecast.obstacles, entries)


def _title(experiment: Experiment) -> str:
    return f"{experiment.name} ({experiment.scale}): {experiment.question}"


def _shown(title: str, obstacles: Sequence[str], entries: Sequence[tuple[str, Sequence[str]]]) -> dict[str, Any]:
    first = [entry for label in FIRST for entry in entries if entry[0] == label]
    rest = [entry for entry in entries if entry not in first]
    return {"title": title, "obstacles": list(obstacles), "first": first or rest, "rest": rest if first else []}
