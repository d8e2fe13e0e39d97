"""Every sentence template of answers, verdicts, gate and bisection, filled in, in one golden file for a reader.

Templates are read from the sources: messages of tr(), f-strings and constants of two words or more. Their placeholders
are filled by name, so values need not agree with one another.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

from mydyno.language import agreed
from tests.support.golden import check_golden

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src/mydyno"
FOLDERS = ("wording", "verdicts", "reports/bisect")
FORMATS = {"junit.py", "markdown.py", "terminal.py", "html.py", "json.py"}
"""Files that lay out the words of others."""
PLACEHOLDERS = tomllib.loads((ROOT / "tests/support/data/sentence-values.toml").read_text(encoding="utf-8"))

COUNT = re.compile(
    r"\{(?:count|all|all_slices|blocks|connections|cycles|done|fewest|first|last|least|left|len|look|lost|many|more|most|"
    r"needed|of|rows|runs|samples|second|series|servers|slices|studies|sum|tables|total|tried|[A-Z_]+)(?::[^}]*)?\}"
)
"""Placeholders of whole numbers."""


def templates(path: Path) -> Iterator[tuple[str, str]]:
    """(template, its number: singular, plural or "") of a file, by line; none of docstrings and errors."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr):
            skipped |= {id(inner) for inner in ast.walk(node) if inner is not node}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
    numbers: dict[int, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "tr_plural":
            numbers |= {id(node.args[0]): "singular", id(node.args[1]): "plural"}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in skipped:
            found.append((node.lineno, node.col_offset, "".join(map(_part, node.values)), ""))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            found.append((node.lineno, node.col_offset, node.value, numbers.get(id(node), "")))
    for _, _, text, number in sorted(found):
        words = re.findall(r"[^\W\d_]{2,}", re.sub(r"\{[^}]*\}", "", text))
        if len(words) > 1 and " " in text and not re.search(r"[<\\]", text):
            yield text, number


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


def filled(template: str, number: str) -> str:
    """The template with the values. Raises KeyError for a placeholder without one."""
    special: dict[str, str] = {}
    for one in PLACEHOLDERS["special"]:
        special |= one if one["in"] in template else {}
    special |= PLACEHOLDERS[number] if number else {}
    text = ""
    for literal, name, specification, _ in Formatter().parse(template):
        text += literal
        if name is None:
            continue
        is_attached = text[-1:].isalnum() or text[-1:] in ("%", ")")
        first, second = ("attached", "values") if is_attached else ("values", "attached")
        values = PLACEHOLDERS["numbers"] if specification else PLACEHOLDERS[second] | PLACEHOLDERS[first] | special
        text += format(values[name], specification or "")
    return text


def test_every_sentence_is_in_the_golden_file() -> None:
    lines = []
    for folder in FOLDERS:
        for path in sorted((SOURCES / folder).glob("*.py")):
            found = list(dict.fromkeys(templates(path))) if path.name not in FORMATS else []
            if found:
                lines += ["", f"{folder}/{path.name}", *(f"  {filled(*one).strip()}" for one in found)]
    check_golden("sentences.txt", "\n".join(lines[1:]) + "\n")


DISAGREES = re.compile(
    r"(?<![\w.,=/-])1 (?!(?:of|or|and|to|in)\b)(?:[a-z]+ )?(?!(?:always|exceeds|less|matters|process|series|this)\b)"
    r"(?!(?:is|has|was|does|its)\b)[a-z]{3,}[^s\W]s\b(?!/)|\b1 of (?:\d+ )?[\w ]*?s (?:are|were|have)\b"
)


def test_what_is_counted_once_is_singular_everywhere() -> None:
    """Whatever a message counts, with 1 in every place of a number."""
    wrong = []
    for folder in (*FOLDERS, "reports", "reports/sections", "reports/across", "execution/planning"):
        for path in sorted((SOURCES / folder).glob("*.py")):
            for template, number in dict.fromkeys(templates(path)):
                if number != "plural" and (found := DISAGREES.search(agreed(COUNT.sub("1", template)))):
                    wrong.append(f"{path.name}: {found[0]!r}: {template}")
    assert wrong == []
