"""Every program that mydyno starts passes through report_start(): --verbose prints it, a study's command log keeps it.

Passwords go by files and environment variables, not by arguments. As a second line of defence an argument that contains
a known password (protect()) is replaced before anything is printed or written.
"""

from __future__ import annotations

import logging
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from mydyno.store.logs import CommandLog

LOGGER = logging.getLogger("mydyno.commands")
REDACTED = "***"
Done = subprocess.CompletedProcess[str]
"""A short program that has ended."""
_LOG: ContextVar[CommandLog | None] = ContextVar("mydyno_command_log", default=None)
_secrets: set[str] = set()


@contextmanager
def recorded_commands() -> Iterator[CommandLog]:
    """Within it every program that this task, its tasks and its threads start is recorded in the log."""
    log = CommandLog()
    token = _LOG.set(log)
    try:
        yield log
    finally:
        _LOG.reset(token)


def protect(secret: str) -> None:
    """From now on, redact whatever contains this secret."""
    if secret:
        _secrets.add(secret)


def redacted(text: str) -> str:
    """The text, or REDACTED where it contains a secret."""
    return REDACTED if any(secret in text for secret in _secrets) else text


@dataclass(frozen=True)
class StartedCommand:
    """A program that runs, as the log knows it."""

    name: str
    log: CommandLog | None
    number: int
    began_s: float

    def ended(self, exit_code: int) -> None:
        """It has ended now."""
        duration_s = time.monotonic() - self.began_s
        LOGGER.debug("%s ended with exit code %d after %.3f s", self.name, exit_code, duration_s)
        if self.log is not None:
            self.log.ended(self.number, exit_code, duration_s)


def report_start(
    argv: Sequence[str], *, cwd: Path | None = None, entering: Sequence[str] = (), user: str | None = None
) -> StartedCommand:
    """Report a program that is being started.

    `entering`: the command before its own that enters a namespace or a group; `user`: where that is not mydyno's own.
    Its environment is not reported: variables of package clients may hold a proxy's password.
    """
    arguments = [redacted(argument) for argument in argv]
    prefix = [redacted(argument) for argument in entering]
    LOGGER.debug("%s", shlex.join([*prefix, *arguments]))
    log = _LOG.get()
    facts = {"cwd": str(cwd or Path.cwd()), "entering": prefix, "user": user}
    number = 0 if log is None else log.started(arguments, facts)
    return StartedCommand(Path(arguments[0]).name, log, number, time.monotonic())


def run_command(argv: Sequence[str], timeout_s: float = 30.0) -> Done:
    """Run a short program of the system to its end. Raises OSError; TimeoutError, which is one, kills it."""
    started = report_start(argv)
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
    except OSError:
        started.ended(127)  # as a shell reports a program that cannot be started
        raise
    except subprocess.TimeoutExpired:
        started.ended(124)  # as timeout(1) does
        raise TimeoutError(f"timed out after {timeout_s:g} s") from None
    started.ended(done.returncode)
    return done


def start_apart(argv: Sequence[str]) -> tuple[subprocess.Popen[str], StartedCommand]:
    """Start a program in a session of its own, which Ctrl-C in the terminal does not reach; its output is a pipe."""
    started = report_start(argv)
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
    )  # fmt: skip
    return process, started


class DetachedCommand:
    """A program that continues after this one ends."""

    def __init__(self, process: subprocess.Popen[bytes], started: StartedCommand) -> None:
        self.pid = process.pid
        self._process = process
        self._started: StartedCommand | None = started

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        exit_code = self._process.poll()
        if exit_code is not None and self._started is not None:
            self._started.ended(exit_code)
            self._started = None
        return exit_code


def start_detached(argv: Sequence[str], output: Path) -> DetachedCommand:
    """Start a program in a session of its own, with its output in a new file. Raises OSError."""
    with output.open("xb") as file:
        started = report_start(argv)
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    return DetachedCommand(process, started)


def end_apart(process: subprocess.Popen[str], started: StartedCommand, grace_s: float) -> None:
    """SIGTERM, SIGKILL after the grace time, and close its pipe."""
    process.terminate()
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
    started.ended(process.returncode)
