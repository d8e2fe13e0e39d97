from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.memcached_commits import commit, git, new_repository
from tests.support.stand_in import PROGRAM


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose program says that it is a memcached; two commits."""
    made = new_repository(tmp_path / "stand-in")
    (made / "memcached.c").write_text(PROGRAM)
    (made / "line.c").write_text("int line(void) { return 0; }\n")
    commit(made, "Begin")
    git(made, "tag", "v1")
    (made / "line.c").write_text("int line(void) { volatile int n = 5; return n - 5; }\n")
    commit(made, "Count")
    return made
