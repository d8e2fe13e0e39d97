"""`mydyno schema NAME`: the JSON Schema of an experiment file, for editors, or of a file that a study writes."""

from __future__ import annotations

from typing import Annotated

import typer

from mydyno.cli.streams import print_json
from mydyno.errors import UserError
from mydyno.experiment_file.parsing import experiment_schema
from mydyno.experiments import vocabulary
from mydyno.model.definition.problems import with_guess
from mydyno.model.stored.schemas import STORED, stored_schema

EXPERIMENT = "experiment"
NAMES = (EXPERIMENT, *STORED)


def schema(name: Annotated[str, typer.Argument(help=f"{', '.join(NAMES)}.", metavar="NAME")] = EXPERIMENT) -> None:
    """Print the JSON Schema of experiment files, or of a file that a study writes."""
    if name not in NAMES:
        raise UserError(f"{name}: no such schema; known: {', '.join(NAMES)}", with_guess("", name, NAMES))
    print_json(experiment_schema(vocabulary()) if name == EXPERIMENT else stored_schema(name))
