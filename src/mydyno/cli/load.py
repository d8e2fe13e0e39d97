"""`mydyno load …`: the load program, dynoload, with all that follows as its arguments."""

from __future__ import annotations

import os
import sys

import typer

from mydyno.hosts.paths import HostPaths

PASSED_ON = {"allow_extra_args": True, "allow_interspersed_args": False}


def register(app: typer.Typer) -> None:
    """Add the command."""
    text = "Run dynoload, the load program, with what follows: `mydyno load help` describes it."
    app.command(name="load", help=text, context_settings=PASSED_ON)(load)


def load(context: typer.Context) -> None:
    """Become dynoload; its exit code is this command's. Raises HostError if the engine was not built."""
    program = HostPaths.resolve().program("dynoload")
    sys.stdout.flush()
    os.execv(program, ["dynoload", *context.args])
