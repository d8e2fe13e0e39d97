"""The command line: one file per command; this one puts them together and turns errors into exit codes."""

from __future__ import annotations

import sys

import typer

from mydyno import __version__
from mydyno.cli import clean, doctor, list_, plan, report, resume, run, schema, servers
from mydyno.cli.exit_codes import ExitCode, exit_code_of
from mydyno.errors import MydynoError

app = typer.Typer(
    name="mydyno",
    help="A dynamometer for MySQL and MariaDB: does this change make the database faster, and at what cost?",
    epilog="Begin with:  mydyno run allocators    (a few minutes; `mydyno plan allocators` shows what it will do)",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (run, plan, resume, list_, report, clean, doctor, servers, schema):
    module.register(app)


def _version(value: bool) -> None:
    if value:
        print(f"mydyno {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    del version


def main() -> None:
    """Run the program and exit with one of ExitCode."""
    try:
        app()
    except MydynoError as error:
        print(f"mydyno: error: {error}", file=sys.stderr)
        sys.exit(exit_code_of(error))
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
