"""Loads the experiment of a command, with a line on stderr about former names in it, and a fresh seed for a study."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence

from mydyno import experiments
from mydyno.experiment_file.former_keys import former_names
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.model.definition.experiment import Experiment

LARGEST_SEED = 999_999


def load(name_or_path: str, scale: str | None = None, settings: Sequence[str] = ()) -> tuple[Experiment, TomlSource]:
    """As experiments.load(). Raises UserError with every mistake."""
    experiment, source = experiments.load(name_or_path, scale, settings)
    if words := former_names(source, settings):
        print(f"mydyno: hint: {name_or_path}: {words}", file=sys.stderr)
    return experiment, source


def load_for_study(
    name_or_path: str, scale: str | None = None, settings: Sequence[str] = ()
) -> tuple[Experiment, TomlSource]:
    """The same, with a fresh seed where the experiment has none: repeated studies do not repeat their orders."""
    experiment, source = load(name_or_path, scale, settings)
    design = experiment.design
    if "seed" not in design.model_fields_set:
        design = design.model_copy(update={"seed": 1 + secrets.randbelow(LARGEST_SEED)})
    return experiment.model_copy(update={"design": design}), source
