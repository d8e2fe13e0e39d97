"""The meaning of mydyno's exit codes."""

from __future__ import annotations

from enum import IntEnum

from mydyno.errors import HostError, MydynoError, UserError


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
