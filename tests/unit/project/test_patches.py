"""Tests pass in what is to be different: a host, a constant, a clock, a function, or a subclass.

A patched module is different for all of its users, also those that a test does not know; the patch follows the name
from import to import, and goes on without effect when somebody moves it. What is passed in is checked by mypy.
"""

from __future__ import annotations

from tests.support import ROOT

MOST = 18
MOST_UNDER_ANY_NAME = 34
"""`patch.setattr` of a MonkeyPatch.context() among them."""


def test_no_more_modules_are_patched_than_before() -> None:
    text = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py") if path.name != "test_patches.py")
    assert text.count("monkeypatch.setattr(") <= MOST, "pass it in: CONTRIBUTING.md"
    assert text.count(".setattr(") <= MOST_UNDER_ANY_NAME, "pass it in: CONTRIBUTING.md"
    assert "unittest.mock" not in text and "mock.patch" not in text
