"""Text and tables for GitHub-flavoured Markdown; text from outside is escaped, so that it cannot become markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

LONGEST = 65_000
"""Characters; a comment on GitHub has at most 65,536, and a bot may add its own."""


def escape(text: str) -> str:
    """Text that Markdown and HTML read as plain: one line, markup characters escaped."""
    flat = " ".join(text.split())
    for character in "\\`*_[]|#":
        flat = flat.replace(character, "\\" + character)
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def code(text: str) -> str:
    """Text that may stand between backquotes."""
    return " ".join(text.split()).replace("`", "'").replace("|", "¦")


def rule(head: str, text_columns: int) -> str:
    """The line below a table's head: so many columns of text at the left, then numbers, text in the last."""
    columns = head.count("|") - 1
    return (
        "|"
        + "|".join("---" if index < text_columns or index == columns - 1 else "--:" for index in range(columns))
        + "|"
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int = 1) -> str:
    """A table of cells that are Markdown; so many columns at the left are text."""
    head, *lines = (f"| {' | '.join(row)} |" for row in (heads, *rows))
    return "\n".join([head, rule(head, text_columns), *lines])


def fitted(parts: Sequence[tuple[str, str]], optional: Sequence[str], whole: str) -> str:
    """(name, text) in order as one text of at most LONGEST characters; parts without text are nothing.

    Where it is longer, the parts that `optional` names are left out one by one, in that order, and what is left is cut
    after a line; the last line then names them and where the `whole` is.
    """
    left = [(name, text) for name, text in parts if text]
    text = _joined(left)
    if len(text) <= LONGEST:
        return text
    omitted = []
    for name in optional:
        if any(one == name for one, _ in left):
            left = [(one, text) for one, text in left if one != name]
            omitted.append(name)
        text = _joined([*left, _note(omitted, whole)])
        if len(text) <= LONGEST:
            return text
    note = _joined([_note([*omitted, "what follows here"], whole)])
    return _joined(left)[: LONGEST - len(note) - 1].rpartition("\n")[0].rstrip() + "\n\n" + note


def _note(omitted: Sequence[str], whole: str) -> tuple[str, str]:
    return "", (
        f"Omitted, because a comment on a pull request has at most 65,536 characters: {', '.join(omitted)}. "
        f"Complete: {whole}"
    )


def _joined(parts: Sequence[tuple[str, str]]) -> str:
    return "\n\n".join(text for _, text in parts) + "\n"
