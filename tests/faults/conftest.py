from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.real import Leftovers, Program


@pytest.fixture
def before(program: Program) -> Iterator[Leftovers]:
    """What was there before; whatever the test did, it must be so again after it."""
    found = program.leftovers()
    yield found
    assert program.leftovers() == found
