"""Sentences agree with what they count, read from the sources: f-strings and constants of two words or more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mydyno.language import agreed

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src/mydyno"
FOLDERS = ("across", "analysis", "bisect", "evaluation", "wording", "verdicts", "reports", "execution/planning")

COUNT = re.compile(
    r"\{(?:count|all|all_slices|blocks|connections|cycles|done|fewest|first|last|least|left|len|look|lost|many|more|most|"
    r"needed|of|rows|runs|samples|second|series|servers|slices|studies|sum|tables|total|tried|[A-Z_]+)(?::[^}]*)?\}"
)
"""Placeholders of whole numbers."""


def templates(path: Path) -> Iterator[tuple[str, bool]]:
    """(template, whether agreed() is called with it) of a file, by line; none of docstrings and errors."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr):
            skipped |= {id(inner) for inner in ast.walk(node) if inner is not node}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "agreed"]
    within = {id(inner) for call in calls for inner in ast.walk(call)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in skipped:
            found.append((node.lineno, node.col_offset, "".join(map(_part, node.values)), id(node) in within))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            found.append((node.lineno, node.col_offset, node.value, id(node) in within))
    for _, _, text, is_agreed in sorted(found):
        words = re.findall(r"[^\W\d_]{2,}", re.sub(r"\{[^}]*\}", "", text))
        if len(words) > 1 and " " in text and not re.search(r"[<\\]", text):
            yield text, is_agreed


def _part(node: ast.expr) -> str:
    """A part of an f-string as in a message: the placeholder has the name of the function, attribute or variable."""
    if isinstance(node, ast.FormattedValue | ast.Subscript):
        return _part(node.value)
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.IfExp):  # the plural, or what is not empty
        return _part(node.orelse) or _part(node.body)
    if isinstance(node, ast.BinOp):
        has_text = any(
            isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (node.left, node.right)
        )
        return _part(node.left) + _part(node.right) if has_text else "{sum}"
    if isinstance(node, ast.Call):
        is_method = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call)
        return _part(node.func.value if is_method and isinstance(node.func, ast.Attribute) else node.func)
    return "{" + (getattr(node, "attr", "") or getattr(node, "id", "") or "text") + "}"


DISAGREES = re.compile(
    r"(?<![\w.,=/-])1 (?!(?:of|or|and|to|in)\b)(?:[a-z]+ )?(?!(?:always|exceeds|less|matters|process|series|this)\b)"
    r"(?!(?:is|has|was|does|its|times the)\b)[a-z]{3,}[^s\W]s\b(?!/)|\b1 of (?:\d+ )?[\w ]*?s (?:are|were|have)\b"
)
AGREED_AS_A_WHOLE = (
    "execution/planning/",
    "wording/verdicts.py",
    "reports/sections/trust.py",
    "analysis/published/__init__.py",
)
"""Where agreed() is called with the sentence that the templates make, or with what is printed."""


def _said(template: str, is_agreed: bool) -> str:
    once = COUNT.sub("1", template)
    return agreed(once) if is_agreed else once


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_counted_once_is_singular_everywhere(folder: str) -> None:
    """Whatever a sentence counts, with 1 in every place of a number."""
    wrong = [
        f"{path.name}: {found[0]!r}: {template}"
        for path in sorted((SOURCES / folder).rglob("*.py"))
        for template, is_agreed in dict.fromkeys(templates(path))
        if (
            found := DISAGREES.search(
                _said(template, is_agreed or path.relative_to(SOURCES).as_posix().startswith(AGREED_AS_A_WHOLE))
            )
        )
    ]
    assert wrong == []
