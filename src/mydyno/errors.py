"""The exception tree. Subclasses say who must act; only cli/ turns them into exit codes.

MydynoError
├── UserError        the user's input: an experiment file, an option, a path        exit 2
├── HostError        this host cannot do it (missing controller, no root, no space)  exit 3
│   └── BuildError   a server could not be built from source                         exit 3
├── StudyError       the study went wrong while it ran                               exit 1
│   ├── ServerError  a database server failed; carries the tail of its error log
│   └── DriverError  a load program failed; carries its own words
└── BugError         mydyno itself is wrong                                          exit 1
"""

from __future__ import annotations


class MydynoError(Exception):
    """What went wrong (what, where, value) and, where there is one, what to try."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class UserError(MydynoError):
    """The user's input is wrong; nothing was started."""


class HostError(MydynoError):
    """This host cannot execute the request; nothing was started."""


class ArchiveError(HostError):
    """A package archive or registry failed, also on retry: it cannot be reached, or lacks the file."""


class BuildError(HostError):
    """The command that builds a server from source failed. The message contains the end of its log."""


class StudyError(MydynoError):
    """The study went wrong while it ran; what was finished is kept."""


class ServerError(StudyError):
    """A database server failed. The message contains the tail of its error log."""


class DriverError(StudyError):
    """A load program failed. The message contains the program's own message."""


class BugError(MydynoError):
    """A bug in mydyno."""
