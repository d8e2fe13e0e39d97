"""The order of whole files in ./test."""

from __future__ import annotations

from tests.conftest import FIRST
from tests.support import ROOT


def test_the_files_that_come_first_are_there() -> None:
    assert [file for file in FIRST if not (ROOT / file).is_file()] == []
