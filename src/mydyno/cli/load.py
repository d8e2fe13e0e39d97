"""`mydyno load …`: the load program, dynoload, with all that follows as its arguments."""

from __future__ import annotations

import os
import sys

import typer

from mydyno.hosts.paths import HostPaths

PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="load", help="Run dynoload, the load program: `load --help`.", context_settings=PASSED_ON)(load)


def load(context: typer.Context) -> None:
    """Become dynoload; its exit code is this command's. Raises HostError if the engine was not built."""
    program = HostPaths.resolve().program("dynoload")
    sys.stdout.flush()
    os.execv(program, ["dynoload", *context.args])
