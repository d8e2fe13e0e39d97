"""The sizes of the project in docs/architecture.md: files and lines of code, words of documentation."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

from docs.reference_pages import pages

SECTION = re.compile(r"(?<=## Size\n\n).*?(?=\n## |\Z)", re.DOTALL)
HEAD = "Lines are of code alone; Rust's contain unit tests.\n\n"
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def sizes(root: Path) -> dict[str, int]:
    """What is counted → files, lines or words of the tree at `root`, without the reports of docs/results."""
    generated = sum(len(text.split()) for text in pages().values())
    written = [page for page in (root / "docs").rglob("*.md") if page.parent.name != "results"]
    words = sum(len(page.read_text().split()) for page in written)
    return {
        "Python files": sum(1 for _ in (root / "src").rglob("*.py")),
        "Rust files": sum(1 for _ in (root / "engine").glob("*/src/**/*.rs")),
        "lines of Python": sum(map(_python_lines, (root / "src").rglob("*.py"))),
        "lines of Python tests": sum(map(_python_lines, (root / "tests").rglob("*.py"))),
        "lines of Rust": sum(map(_rust_lines, (root / "engine").glob("*/src/**/*.rs"))),
        "lines of Rust tests": sum(map(_rust_lines, (root / "engine").glob("*/tests/**/*.rs"))),
        "written words": words - generated,
        "generated words": generated,
    }


def _python_lines(path: Path) -> int:
    """Without empty lines, comments and docstrings."""
    text = path.read_text()
    tokens = [one for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type not in NO_CODE]
    code = {line for one in tokens for line in range(one.start[0], one.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            code -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def _rust_lines(path: Path) -> int:
    """Without empty lines and comments."""
    lines = map(str.strip, path.read_text().splitlines())
    return sum(bool(line) and not line.startswith("//") for line in lines)


def write_sizes(root: Path) -> None:
    """Renew the section of architecture.md."""
    page = root / "docs/architecture.md"
    rows = "".join(f"- {name}: {round(count, -2 if count > 1000 else -1):,}\n" for name, count in sizes(root).items())
    page.write_text(SECTION.sub(lambda _: HEAD + rows, page.read_text()))


if __name__ == "__main__":
    write_sizes(Path(sys.argv[1]))
