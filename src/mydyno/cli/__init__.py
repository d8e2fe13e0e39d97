"""The command line: one file per command; this one puts them together and turns errors into exit codes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import typer

from mydyno import __version__
from mydyno.cli.exit_codes import ExitCode, exit_code_of
from mydyno.cli.streams import use_best_effort_streams
from mydyno.errors import MydynoError

COMMANDS = {
    "run": "run",
    "plan": "plan",
    "resume": "resume",
    "list": "list_",
    "report": "report",
    "serve": "serve",
    "compare": "compare",
    "history": "history",
    "gate": "gate",
    "bisect": "bisect",
    "clean": "clean",
    "doctor": "doctor",
    "hosts": "hosts",
    "block": "block",
    "client-network": "client_network",
    "collect": "collect",
    "servers": "servers",
    "schema": "schema",
}
"""Command → its module in this package, in the order of the help page."""


def make_app(commands: Sequence[str]) -> typer.Typer:
    """The program with these commands. Only their modules are loaded: a start must not cost what it does not use."""
    app = typer.Typer(
        name="mydyno",
        help="A dynamometer for MySQL and MariaDB: does this change make the database faster, and at what cost?",
        epilog="To start: mydyno run allocators    (ten minutes; `mydyno plan allocators` shows what it will do)",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for command in commands:
        importlib.import_module(f"mydyno.cli.{COMMANDS[command]}").register(app)
    return app


def _version(value: bool) -> None:
    if value:
        print(f"mydyno {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    del version


def main() -> None:
    """Run the program and exit with one of ExitCode."""
    use_best_effort_streams()
    asked = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "")
    only_version = sys.argv[1:] == ["--version"]
    try:
        make_app([asked] if asked in COMMANDS else ["schema"] if only_version else list(COMMANDS))(prog_name="mydyno")
    except MydynoError as error:
        print(f"mydyno: error: {error}", file=sys.stderr)
        sys.exit(exit_code_of(error))
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
