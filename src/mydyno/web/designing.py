"""An experiment while it is written in the browser: checked as `mydyno plan` checks it, and previewed."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mydyno.errors import MydynoError
from mydyno.execution.planning.plan_text import OBSTACLE, Part, plan_parts
from mydyno.execution.planning.preview import preview
from mydyno.experiment_file.parsing import parse_experiment, scales_of
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiment_file.toml_writer import toml_text
from mydyno.experiments import built_in, source_from_text, vocabulary
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.problems import NAME_PATTERN, ExperimentError
from mydyno.web.form_values import decoded, encoded

EMPTY: dict[str, Any] = {
    "name": "experiment",
    "question": "",
    "server": {"name": "mariadb-10.11"},
    "arms": {"control": "before", "before": {}, "after": {}},
    "steps": [{"workload": "oltp_read_write", "connections": [16]}],
    "design": {"time": "10m"},
}
"""What a design begins with: everything that a file needs, but for the question and what the arms set."""


@dataclass(frozen=True)
class Draft:
    """An experiment as it is at the moment."""

    toml: str
    scale: str | None = None
    """None: quick where the file has it, else standard."""
    time: str = ""

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


def draft_of(sent: Mapping[str, Any]) -> Draft:
    """From what the page sent: `toml`, or `tree` of the form, or `start`, a built-in experiment ("": an empty one).

    Raises ValueError for what is no such thing, KeyError for an unknown built-in experiment.
    """
    scale, time = sent.get("scale") or "", sent.get("time") or ""
    if isinstance(toml := sent.get("toml"), str):
        text = toml
    elif isinstance(tree := sent.get("tree"), dict):
        text = toml_text(decoded(tree))
    elif isinstance(start := sent.get("start"), str):
        text = toml_text(TomlSource.parse(start, built_in()[start].read_text()).tree if start else EMPTY)
    else:
        raise ValueError("neither toml nor tree nor start")
    if not isinstance(scale, str) or not isinstance(time, str):
        raise ValueError("scale and time are texts")
    return Draft(text, scale.strip() or None, time.strip())


def checked(draft: Draft, start_programs: bool) -> dict[str, Any]:
    """What the page shows of a draft: its form, the mistakes or the plan, and the command that starts it."""
    shown: dict[str, Any] = {
        "toml": draft.toml,
        "file": draft.file_name,
        "command": draft.command,
        "tree": None,
        "scales": [],
        "mistakes": None,
        "plan": None,
    }
    try:
        own = TomlSource.parse(draft.file_name, draft.toml)
        shown["tree"] = encoded(own.tree)
        source = source_from_text(draft.file_name, draft.toml)
        shown["scales"] = scales_of(source)
        settings = [f"design.time={draft.time}"] if draft.time else []
        experiment = parse_experiment(source, vocabulary(), draft.scale, settings)
        made = asyncio.run(preview(experiment, HostPaths.resolve(), start_programs=start_programs))
    except ExperimentError as error:
        found = [
            {"text": problem.text(place), "words": problem.words, "key": list(problem.key)}
            for place, problem in error.mistakes
        ]
        shown["mistakes"] = {"title": error.title, "found": found, "hint": error.hint}
    except MydynoError as error:
        shown["mistakes"] = {"title": error.message, "found": [], "hint": error.hint}
    else:
        parts = plan_parts(experiment, made.plan, made.forecast)
        shown["plan"] = {
            "title": f"{experiment.name} ({experiment.scale}): {experiment.question}",
            "parts": [_shown_part(part) for part in parts],
            "obstacles": list(made.forecast.obstacles),
        }
    return shown


def _shown_part(part: Part) -> list[dict[str, Any]]:
    return [{"label": entry.label, "lines": entry.lines, "alarm": entry.label == OBSTACLE} for entry in part]
