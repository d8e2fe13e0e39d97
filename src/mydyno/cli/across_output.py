"""Where `compare` and `history` write: standard output, or the file of -o."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TextIO

import typer

from mydyno.errors import UserError
from mydyno.files.atomic import write_text
from mydyno.model.definition.problems import with_guess

Format = Annotated[
    str | None,
    typer.Option("--format", help="text, html, json or md; default: by the suffix of -o, else text.", metavar="FORMAT"),
]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Write into this file.", metavar="FILE")]
BY_SUFFIX = {".html": "html", ".htm": "html", ".json": "json", ".md": "md"}
TEXT = "text"
FORMATS = (TEXT, "html", "json", "md")


def chosen_format(format_: str | None, output: Path | None) -> str:
    """The format that was named, else that of the file's suffix, else text. Raises UserError."""
    if format_ is None:
        return BY_SUFFIX.get(output.suffix.lower(), TEXT) if output is not None else TEXT
    if format_ not in FORMATS:
        raise UserError(f"--format {format_}: unknown; allowed: {', '.join(FORMATS)}", with_guess("", format_, FORMATS))
    return format_


def check_output(output: Path | None) -> None:
    """Raises UserError for a file that cannot be written, before any work."""
    if output is not None and (output.is_dir() or not output.absolute().parent.is_dir()):
        raise UserError(f"-o {output}: {'is a folder' if output.is_dir() else 'its folder does not exist'}")


def deliver(text: str | Callable[[TextIO], None], output: Path | None) -> None:
    """Write the text, or what the function prints, to the file or to standard output; prints the file's path."""
    if output is None:
        if isinstance(text, str):
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        else:
            text(sys.stdout)
        return
    if not isinstance(text, str):
        page = io.StringIO()
        text(page)
        text = page.getvalue()
    write_text(output, text)
    print(output)
