"""Markdown for a comment of a pull request has at most 65,536 characters."""

from __future__ import annotations

from mydyno.document.printers import LONGEST, fitted

PARTS = [("", "## title"), ("a", "a" * 30_000), ("b", "b" * 30_000), ("c", "c" * 30_000), ("", "end")]


def test_a_text_that_is_short_enough_is_whole() -> None:
    assert fitted([("", "## title"), ("a", ""), ("b", "text")], ["a", "b"], "there") == "## title\n\ntext\n"


def test_parts_are_left_out_in_the_declared_order_and_named() -> None:
    text = fitted(PARTS, ["c", "a", "b"], "report.html")
    assert len(text) <= LONGEST
    assert (text.count("a"), "ccc" in text) != (0, True)
    assert "aaa" in text
    assert "bbb" in text
    last = text.splitlines()[-1]
    assert last.endswith("at most 65,536 characters: c. Complete: report.html")
    assert text.splitlines()[-3] == "end"


def test_what_is_still_too_long_is_cut_after_a_line() -> None:
    rows = "\n".join(f"| row {number} |" for number in range(20_000))
    text = fitted([("", "## title"), ("", rows), ("a", "x" * 70_000)], ["a"], "report.html")
    assert LONGEST - 100 < len(text) <= LONGEST
    *lines, _, last = text.splitlines()
    assert all(line.startswith("| row ") and line.endswith(" |") for line in lines[2:])
    assert last.endswith("characters: a, what follows here. Complete: report.html")
