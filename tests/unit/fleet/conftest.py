from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.fleet import cluster, controller
from mydyno.hosts.paths import HostPaths
from tests.support.fake_environment import opener
from tests.support.fake_fleet import FakeHosts
from tests.support.fake_script import Script


@pytest.fixture
def lost_groups_stay_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a test lets them return."""
    monkeypatch.setattr(controller, "FIRST_RETRY_S", 3600.0)
    monkeypatch.setattr(cluster, "MOST_WAITING_S", 0.0)


@pytest.fixture
def hosts(tmp_path: Path, paths: HostPaths, script: Script) -> FakeHosts:
    return FakeHosts(tmp_path / "hosts", paths, opener(script))
