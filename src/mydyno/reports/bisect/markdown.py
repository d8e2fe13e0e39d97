"""A bisection as Markdown, for an issue or a pull request."""

from __future__ import annotations

from mydyno.document.markdown_text import fitted
from mydyno.document.section import Table
from mydyno.model.stored.bisection import BisectRecord, BisectResult
from mydyno.wording import bisection as words


def bisect_markdown(record: BisectRecord, result: BisectResult) -> str:
    """The whole text."""
    first, *rest = words.answer(record, result)
    table = Table(*words.path(result))
    lines = [
        f"**{_escaped(first)}**",
        "",
        *(_sentence(line, words.go_on(result)) for line in rest),
        "",
        _line(table.head),
    ]
    lines.append(_line(["---"] * len(table.head)))
    lines += [_line([_escaped(str(cell)) for cell in row]) for row in table.rows]
    lines += ["", *(f"- {_escaped(line)}" for line in words.reasons(result))]
    lines += ["", *(_escaped(note) for note in words.notes(record, result))]
    return fitted([("", "\n".join(lines).rstrip())], (), "report.html")


def _line(cells: object) -> str:
    assert isinstance(cells, list | tuple)
    return "| " + " | ".join(map(str, cells)) + " |"


def _sentence(text: str, command: str) -> str:
    return f"```sh\n{text}\n```" if text == command else _escaped(text)


def _escaped(text: str) -> str:
    """Subjects of commits are other people's text."""
    for letter in "\\*_[]<>|":
        text = text.replace(letter, f"\\{letter}")
    return text
