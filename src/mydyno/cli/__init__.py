"""The command line: one file per command; this one puts them together and turns errors into exit codes."""

from __future__ import annotations

import errno
import gc
import importlib
import inspect
import os
import signal
import sys
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from mydyno import __version__
from mydyno.cli.streams import set_verbosity, use_best_effort_streams
from mydyno.errors import HostError, MydynoError, UserError
from mydyno.language import agreed

if TYPE_CHECKING:
    import asyncio


class ExitCode(IntEnum):
    """Documented in docs/reference/commands.md."""

    DONE = 0
    """The command succeeded."""
    STUDY_FAILED = 1
    """The study failed, invalid runs left it without any answer, or mydyno has a bug; finished runs are kept."""
    USER_INPUT = 2
    """The user's input is wrong; nothing was started."""
    HOST_CANNOT = 3
    """This host cannot do it; nothing was started."""
    GATE_WORSE = 4
    """`gate`: an arm is worse than its threshold allows, or it failed."""
    GATE_OPEN = 5
    """`gate`: undecided. `bisect`: no commit is found, or not all."""
    INTERRUPTED = 130
    """Interrupted by Ctrl-C or SIGTERM; `mydyno resume` continues the study."""


def exit_code_of(error: MydynoError) -> ExitCode:
    """The exit code of an error: which one depends on who must act."""
    if isinstance(error, UserError):
        return ExitCode.USER_INPUT
    if isinstance(error, HostError):
        return ExitCode.HOST_CANNOT
    return ExitCode.STUDY_FAILED


def cancel_on_signals(task: asyncio.Future[Any]) -> None:
    """Ctrl-C, SIGTERM and SIGHUP cancel the task; a SIGHUP that is ignored, as by nohup, stays ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            task.get_loop().add_signal_handler(number, task.cancel)


class Command(NamedTuple):
    """A command: its module in this package, and its line on the help page.

    The module has `group`, a command with commands of its own, or a function of the module's name, whose docstring is
    the command's help; and `CONTEXT` for click, if it takes other arguments than those that it names.
    """

    module: str
    summary: str


COMMANDS = {
    "run": Command("run", "Run an experiment and write its report."),
    "plan": Command("plan", "Print what `run` would do on this host; starts nothing."),
    "resume": Command("resume", "Continue an interrupted study, or add blocks to one."),
    "list": Command("list_", "List the built-in experiments and the studies."),
    "report": Command("report", "Write a study's report again: html, md, csv, json."),
    "serve": Command("serve", "Show studies, and the one that runs, in a browser."),
    "compare": Command("compare", "Compare studies, or arms of one study."),
    "history": Command("history", "Show all studies of an experiment, and what changed."),
    "gate": Command("gate", "Decide by exit code whether an arm is worse than allowed."),
    "bisect": Command("bisect", "Find the commit that made a server worse."),
    "clean": Command("clean", "Undo what a killed study left on this host."),
    "doctor": Command("doctor", "Report what this host can and cannot measure."),
    "servers": Command("servers", "List the servers that can be measured; add your own."),
    "load": Command("load", "Run dynoload, the load program, by hand."),
    "hosts": Command("hosts", "Install mydyno on other hosts, compare them, list them."),
    "block": Command("block", "Execute one block of a study, for job schedulers."),
    "schema": Command("schema", "Print the JSON Schema of the files."),
    "client-network": Command("client_network", ""),
}
"""The commands in the order of the help page; without a summary: hidden."""


def make_app(commands: Sequence[str]) -> typer.Typer:
    """The program with these commands; without any, those of the help page.

    Only the modules of `commands` are loaded: a start must not cost what it does not use.
    """
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
    for name in commands:
        _add(app, name, importlib.import_module(f"mydyno.cli.{COMMANDS[name].module}"))
    if not commands:
        for name, (_, summary) in COMMANDS.items():
            app.command(name=name, help=summary, hidden=not summary)(lambda: None)
    return app


def _add(app: typer.Typer, name: str, module: ModuleType) -> None:
    group: typer.Typer | None = getattr(module, "group", None)
    if group is not None:
        app.add_typer(group, name=name)
        return
    command = getattr(module, COMMANDS[name].module)
    settings = getattr(module, "CONTEXT", None)
    app.command(name, hidden=not COMMANDS[name].summary, context_settings=settings)(_flat(command))


def _flat(command: Callable[..., None]) -> Callable[..., None]:
    """A command of a class of options alone, with a parameter for each of its fields; any other as it is."""
    options = inspect.signature(command, eval_str=True).parameters.get("options")
    if options is None:
        return command

    @wraps(command)
    def flat(**values: object) -> None:
        command(options.annotation(**values))

    flat.__signature__ = inspect.signature(options.annotation, eval_str=True)  # type: ignore[attr-defined]
    return flat


def _version(value: bool) -> None:
    if value:
        print(f"mydyno {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    del version
    set_verbosity(False)


def main() -> None:
    """Run the program and exit with one of ExitCode."""
    use_best_effort_streams()
    code = _ended(_run)
    sys.exit(_ended(sys.stdout.flush) or code)


def _ended(work: Callable[[], object]) -> int | str | None:
    """The exit code of the work, after a line for its error.

    An error of the operating system that names a file is the host's or the user's, and a full disk is; others are bugs
    with a traceback.
    """
    try:
        work()
    except SystemExit as ended:
        return ended.code
    except MydynoError as error:
        print(agreed(f"mydyno: error: {error}"), file=sys.stderr)
        return exit_code_of(error)
    except OSError as error:
        if error.filename is None and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        named = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        print(f"mydyno: error: {named}{error.strerror}", file=sys.stderr)
        return ExitCode.HOST_CANNOT
    except RuntimeError as error:  # of Path.resolve() before Python 3.13
        if "Symlink loop" not in str(error):
            raise
        print(f"mydyno: error: {error}", file=sys.stderr)
        return ExitCode.HOST_CANNOT
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    return ExitCode.DONE


def _run() -> None:
    asked = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "")
    gc.disable()  # looking for garbage in modules takes an eighth of the time of a short command
    app = make_app([asked] if asked in COMMANDS else [])
    gc.enable()
    app(prog_name="mydyno")
