"""Standard output and standard error, whose reader may go away and whose encoding may lack a character.

Output without a reader is dropped, and the command continues: a study does not depend on the pager that shows its
progress. What the disk has no room for is an error on standard output, and dropped on standard error. A character that
the encoding lacks is written as its escape, and so is a control character.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from mydyno.visible import VisibleText

GONE = (errno.EPIPE, errno.EBADF, errno.EIO)
"""No reader, no open file, a terminal that hung up."""


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
        setattr(sys, name, VisibleText(io.BufferedWriter(raw), stream.encoding, stream.line_buffering))


def warn(text: str) -> None:
    """A line on stderr outside of any bar."""
    print(text, file=sys.stderr)
