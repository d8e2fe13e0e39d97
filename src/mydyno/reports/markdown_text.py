"""Text and tables for GitHub-flavoured Markdown; text from outside is escaped, so that it cannot become markup."""

from __future__ import annotations


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
