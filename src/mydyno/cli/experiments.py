"""Loads the experiment of a command, with a line on stderr about former names in it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mydyno import experiments
from mydyno.experiment_file.former_keys import former_names
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.model.definition.experiment import Experiment


def load(name_or_path: str, scale: str | None = None, settings: Sequence[str] = ()) -> tuple[Experiment, TomlSource]:
    """As experiments.load(). Raises UserError with every mistake."""
    experiment, source = experiments.load(name_or_path, scale, settings)
    if words := former_names(source, settings):
        print(f"mydyno: hint: {name_or_path}: {words}", file=sys.stderr)
    return experiment, source
