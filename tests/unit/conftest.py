from __future__ import annotations

from pathlib import Path

import pytest

import mydyno
from mydyno.hosts.paths import ENGINE_PROGRAMS, HostPaths
from tests.support.fake_environment import Script


@pytest.fixture
def paths(tmp_path: Path) -> HostPaths:
    """Folders of their own, an engine program that exists, and a lock that no real study on this host holds."""
    engine = tmp_path / "engine"
    engine.mkdir()
    for name in ENGINE_PROGRAMS:
        (engine / name).write_text(f"#!/bin/sh\necho {name} {mydyno.__version__}\n")
        (engine / name).chmod(0o755)
    return HostPaths(
        cache=tmp_path / "cache",
        data=tmp_path / "data",
        engine=engine,
        server_user=None,
        study_lock_address=f"\0mydyno-test-{tmp_path}",
    )


@pytest.fixture
def script() -> Script:
    return Script()
