"""Standard output and standard error, whose reader may go away and whose encoding may lack a character.

Output without a reader is dropped, and the command continues: a study does not depend on the pager that shows its
progress. What the disk has no room for is an error on standard output, and dropped on standard error. A character that
the encoding lacks is written as its escape, and so is a control character.
"""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import re
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from mydyno.visible import VisibleText, unchanged

if TYPE_CHECKING:
    from mydyno.store.study_folder import StudyFolder

GONE = (errno.EPIPE, errno.EBADF, errno.EIO)
"""No reader, no open file, a terminal that hung up."""


STARTED_AS = "MYDYNO_COMMAND"
"""Environment variable: what the user typed to start the program, where that is not mydyno."""
DEFAULT_STUDIES = Path("studies")
_FOLDER = [DEFAULT_STUDIES]
_VERBS = "run|plan|resume|clean|list|report|compare|history|gate|bisect|serve|hosts|doctor|servers|schema"
_COMMAND = re.compile(rf"(?<![\w./-])mydyno (?P<verb>{_VERBS})\b(?: (?P<study>\w[\w.-]*\w)(?![\w./-]))?")


class BestEffort(io.RawIOBase):
    """The file descriptor of a stream; it becomes /dev/null at the first write that fails."""

    def __init__(self, stream: TextIO, needed: bool) -> None:
        """`needed`: whether a write that fails for another reason than GONE raises."""
        super().__init__()
        self._needed = needed
        self._stream = stream  # else it would be closed with its descriptor
        self._descriptor = stream.fileno()

    def writable(self) -> bool:
        """Always."""
        return True

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._descriptor)

    def write(self, data: Any, /) -> int:
        """Raises OSError once for what is needed, as on a full disk; what follows is dropped."""
        try:
            return os.write(self._descriptor, data)
        except OSError as error:
            self._drop()
            if self._needed and error.errno not in GONE:
                raise OSError(error.errno, error.strerror, "standard output") from error
        return memoryview(data).nbytes

    def _drop(self) -> None:
        nothing = os.open(os.devnull, os.O_WRONLY)
        if nothing != self._descriptor:
            os.dup2(nothing, self._descriptor)
            os.close(nothing)


def use_best_effort_streams() -> None:
    """For the rest of the program; a stream that was closed before it began is /dev/null."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
            continue
        raw = BestEffort(stream, needed=name == "stdout")
        # A program gets documents as they are.
        rewritten = as_typed if name == "stderr" or stream.isatty() else unchanged
        setattr(sys, name, VisibleText(io.BufferedWriter(raw), stream.encoding, stream.line_buffering, rewritten))


def use_studies(folder: Path) -> Path:
    """The folder as it is, after which the commands that are printed name its studies by their paths."""
    _FOLDER[0] = folder
    return folder


def as_typed(text: str) -> str:
    """The text with mydyno's commands as they work from here: by the name it was started as, and of a study in another
    folder than studies/ with its path.
    """
    return _COMMAND.sub(_typed, text)


def _typed(command: re.Match[str]) -> str:
    verb, name = command["verb"], command["study"]
    folder = _FOLDER[0] / name if name else None
    found = f"{os.environ.get(STARTED_AS) or 'mydyno'} {verb}"
    if folder is not None and _FOLDER[0] != DEFAULT_STUDIES and (folder / "study.json").exists():
        return f"{found} {shlex.quote(str(folder))}"
    return found + (f" {name}" if name else "")


def warn(text: str) -> None:
    """A line on stderr outside of any bar."""
    print(text, file=sys.stderr)


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    json.dump(value, sys.stdout, indent=1, default=str)
    print()


def warn_of_damage(folder: StudyFolder) -> None:
    """A line on stderr for a study whose journal is damaged; everything else of it may still be right."""
    if words := folder.journal.damage():
        warn(f"mydyno: warning: {words}")


class StderrHandler(logging.Handler):
    """Writes to what sys.stderr is at that moment: a progress bar puts its own stream there while it is drawn."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line with the time of day."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        warn(f"{clock}.{record.msecs:03.0f} {record.name}: {record.getMessage()}")


def set_verbosity(verbose: bool) -> None:
    """Print the commands that mydyno starts, and its own debug messages, on stderr; or none."""
    logger = logging.getLogger("mydyno")
    logger.propagate = False
    logger.handlers = [StderrHandler()] if verbose else [logging.NullHandler()]
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)


def use_verbosity(verbose: bool) -> bool:
    """--verbose of a command; without it, that of the command above it stays in force."""
    if verbose:
        set_verbosity(True)
    return verbose
