"""`mydyno schema`: the JSON Schema of an experiment file, for editors."""

from __future__ import annotations

import typer

from mydyno.cli.output import print_json
from mydyno.experiments import vocabulary
from mydyno.model.schema import experiment_schema


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="schema", help="Print the JSON Schema of experiment files.")(schema)


def schema() -> None:
    """Print it."""
    print_json(experiment_schema(vocabulary()))
