"""`mydyno load …`: the load program, dynoload, with all that follows as its arguments."""

from __future__ import annotations

import os
import sys

import typer

from mydyno.hosts.paths import HostPaths

CONTEXT = {"allow_extra_args": True, "allow_interspersed_args": False}


def load(context: typer.Context) -> None:
    """Run dynoload, the load program, with what follows: `mydyno load help` describes it."""
    program = HostPaths.resolve().program("dynoload")
    sys.stdout.flush()
    os.execv(program, ["dynoload", *context.args])
