"""Loads the experiment of a command that makes a study, with a fresh seed."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from mydyno import experiments
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.model.definition.experiment import Experiment

LARGEST_SEED = 999_999


def load_for_study(
    name_or_path: str, scale: str | None = None, settings: Sequence[str] = (), fixed: bool = False
) -> tuple[Experiment, TomlSource]:
    """As experiments.load(); with a fresh seed where it has none, so that repeated studies have other orders.

    `fixed`: with its number of blocks instead of a time.
    """
    experiment, source = experiments.load(name_or_path, scale, settings)
    if fixed and experiment.design.time is not None:
        blocks = ['design.time="none"', f"design.blocks={experiment.design.blocks}"]
        experiment, source = experiments.load(name_or_path, scale, [*settings, *blocks])
    design = experiment.design
    if "seed" not in design.model_fields_set:
        design = design.model_copy(update={"seed": 1 + secrets.randbelow(LARGEST_SEED)})
    return experiment.model_copy(update={"design": design}), source
