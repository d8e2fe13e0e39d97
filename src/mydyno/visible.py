"""Control characters of others' texts, as a question or the name of a folder may hold, reach no terminal and no page.

With those of the direction of writing (Unicode Standard Annex 9), which show a text in another order than it has.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import IO, TextIO

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r"}
_ESCAPES |= {
    code: f"\\u{code:04x}" for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
_RETURN = re.compile(r"\r(?!\n)")


def visible(text: str) -> str:
    """The text with each control character but tabulator and ends of lines as its escape.

    A carriage return elsewhere lets a terminal write over the line.
    """
    return _RETURN.sub(r"\\x0d", text).translate(_ESCAPES)


def visible_value(value: object) -> object:
    """What a template inserts: texts are visible(); numbers and markup, which templates made, stay as they are."""
    return visible(value) if type(value) is str else value


def unchanged(text: str) -> str:
    """The text itself; of bytes, which a text stream refuses, no text is made."""
    return text


class RewrittenText(io.TextIOWrapper):
    """A stream of which every text is written as `rewritten` returns it."""

    def __init__(
        self, buffer: io.BufferedWriter, encoding: str, line_buffering: bool, rewritten: Callable[[str], str]
    ) -> None:
        super().__init__(buffer, encoding, "backslashreplace", line_buffering=line_buffering, write_through=True)
        self.rewritten = rewritten

    def write(self, text: str, /) -> int:
        """The length is that of the text given."""
        super().write(self.rewritten(text))
        return len(text)


class VisibleText(RewrittenText):
    """A stream on which all that is written is visible; what styles its text itself writes to `styled`."""

    def __init__(
        self,
        buffer: io.BufferedWriter,
        encoding: str,
        line_buffering: bool,
        rewritten: Callable[[str], str] = unchanged,
    ) -> None:
        super().__init__(buffer, encoding, line_buffering, lambda text: visible(rewritten(text)))
        self.styled = RewrittenText(buffer, encoding, line_buffering, rewritten)


def styled(file: TextIO) -> TextIO:
    """The stream for Rich, which writes escape sequences of its own; its texts have to be visible()."""
    return file.styled if isinstance(file, VisibleText) else file


def as_written(file: IO[str], text: str) -> str:
    """The text as this stream will write it, for what breaks it into lines before."""
    return file.rewritten(text) if isinstance(file, RewrittenText) else text
