"""Plain technical English in everything that people read: pages, help, messages, docstrings, doc comments.

A phrase is listed here after it was removed everywhere. Text is searched as one line, so a phrase is also found where a
line breaks inside it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("src", "engine", "docs")
PHRASES = {
    r"\bto be had\b": "available",
    r"\b(cannot|could not) be had\b": "is unavailable",
    r"\bwithout leave\b": "without permission",
    r"\bfor want of\b": "because there is no …; to limit …",
    r"\bnot itself\b": "outside its usual range",
    r"\bout of line\b": "outside the usual range",
    r"\bbehind (the|its|a|that) (warm-up|load|run|step|last|answer)\b": "after",
    r"; say [\w.]+ = ": "set NAME = VALUE",
    r"\bleave it out\b": "omit it, remove it",
    r"\bleft out, aloud\b": "omitted, with the reason",
    r"'s own words\b": "the program's message",
    r"\bmydyno's own words\b": "mydyno's messages",
    r"\bwhat (it|a server|the server|the kernel|the allocator) tells\b": "what it reports",
    r"\b(does|do) not tell\b": "does not report",
    r"\b(is|was|were|are) told\b": "is reported, receives",
    r"\bnobody (asks|knows|listens)\b": "name the fact: unknown, unused",
    r"\bput to the test\b": "tested",
    r"\bmore than (it|its) (share|due) of\b": "too much",
    r"\bmend(s|ed)?\b": "fix",
    r"\bwhoever (loads|is shown|watches)\b": "name the object",
    r"\basks a server\b": "runs against a server",
    r"\bthe seconds behind\b": "after",
    r"\bthat is not itself\b": "outside its usual range",
    r"\b(the|its|their) begin\b(?!\()": "beginning, start",
}
"""Regular expression → what to write in its place."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of everything that a person reads: literals, docstrings and doc comments, or the whole page."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(content)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value
    elif path.suffix == ".rs":
        comment: list[str] = []
        first = 0
        for number, line in enumerate(content.splitlines(), 1):
            found = re.match(r"\s*//[/!] ?(.*)", line)
            if found:
                first = first if comment else number
                comment.append(found.group(1))
                continue
            if comment:
                yield first, "\n".join(comment)
                comment = []
            for text in re.findall(r'"((?:[^"\\]|\\.)*)"', line):
                yield number, text
        if comment:
            yield first, "\n".join(comment)
    else:
        yield 1, content


def findings(paths: list[Path]) -> list[str]:
    """Every banned phrase: file, line, what was found, what to write."""
    found = []
    for path in paths:
        flat = [(line, re.sub(r"\s+", " ", text)) for line, text in texts(path)]
        whole = "\n".join(text for _, text in flat)
        for phrase, better in PHRASES.items():
            if re.search(phrase, whole) is None:
                continue
            for line, text in flat:
                for match in re.finditer(phrase, text):
                    found.append(f"{path}:{line}: {match.group(0)!r}: {better}")
    return found


def readable() -> list[Path]:
    pages = sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
    code = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".py", ".rs")]
    return [path for path in (*pages, *code) if "target" not in path.parts]


def test_texts_are_plain_technical_english() -> None:
    paths = readable()
    assert len(paths) > 300, "the project's pages and code were not found"
    found = findings(paths)
    assert found == [], "reword these:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("doc.py", 'def f():\n    """It is not to\n    be had."""\n'),
        ("string.py", 'X = f"not to be had: {1}"\n'),
        ("comment.rs", "/// Not to\n/// be had.\nfn f() {}\n"),
        ("string.rs", 'const X: &str = "not to be had";\n'),
        ("page.md", "It is not to\nbe had.\n"),
    ],
)
def test_a_phrase_is_found_across_line_breaks(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    (found,) = findings([tmp_path / name])
    assert "'to be had': available" in found
