"""Where `compare` and `history` write: standard output, or the file of -o."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from mydyno.cli.arguments import check_replaced
from mydyno.document.parts import Document
from mydyno.document.printers import Paper, printed
from mydyno.errors import UserError
from mydyno.files.atomic import write_text
from mydyno.model.definition.problems import with_guess

Format = Annotated[
    str | None,
    typer.Option("--format", help="text, html, json or md; default: by the suffix of -o, else text.", metavar="FORMAT"),
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write into this file.", metavar="FILE", callback=check_replaced)
]
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


def deliver(made: BaseModel, document: Document, chosen: str, output: Path | None) -> None:
    """Write the document, or as JSON what it was made from, to standard output, or the file, whose path is printed."""
    file = sys.stdout if output is None else io.StringIO()
    if chosen == TEXT:
        Paper(file).document(document)
    elif chosen == "html":
        file.write(document.page)
    else:
        text = printed(document, "`--format html`") if chosen == "md" else made.model_dump_json(indent=1)
        file.write(text if text.endswith("\n") else f"{text}\n")
    if output is not None and isinstance(file, io.StringIO):
        write_text(output, file.getvalue())
        print(output)
