"""Control characters of others' texts, as a question or the name of a folder may hold, do not reach a terminal."""

from __future__ import annotations

import io
from typing import TextIO

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r"}


def visible(text: str) -> str:
    """The text with each control character but tabulator and ends of lines as its escape."""
    return text.translate(_ESCAPES)


class VisibleText(io.TextIOWrapper):
    """A stream on which all that is written is visible; what styles its text itself writes to `styled`."""

    def __init__(self, buffer: io.BufferedWriter, encoding: str, line_buffering: bool) -> None:
        super().__init__(buffer, encoding, "backslashreplace", line_buffering=line_buffering, write_through=True)
        self.styled = io.TextIOWrapper(
            buffer, encoding, "backslashreplace", line_buffering=line_buffering, write_through=True
        )

    def write(self, text: str, /) -> int:
        """See visible()."""
        super().write(visible(text))
        return len(text)


def styled(file: TextIO) -> TextIO:
    """The stream for Rich, which writes escape sequences of its own; its texts have to be visible()."""
    return file.styled if isinstance(file, VisibleText) else file
