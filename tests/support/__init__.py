"""What several tests share: fakes, synthetic studies, and the places of files."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
"""The repository."""
DATA = Path(__file__).parent / "data"
"""Recorded outputs of real programs, and files with mistakes."""
ALL = os.environ.get("MYDYNO_TEST_ALL") == "1"
"""Whether this is `./test --all`."""


def first_in_gate(cases: Iterable[Any], count: int = 1) -> list[Any]:
    """For pytest.mark.parametrize: the first cases are in every run, the others in `./test --all`."""
    listed = list(cases)
    others = [case if isinstance(case, tuple) else (case,) for case in listed[count:]]
    return [*listed[:count], *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in others)]
