from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.hosts import lock
from mydyno.hosts.settings import Settings
from mydyno.treatments import catalogue


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Folders of their own, an engine that is there, and a lock that no real study on this host holds."""
    engine = tmp_path / "engine"
    engine.mkdir()
    (engine / "dynoprobe").touch()
    monkeypatch.setattr(lock, "ADDRESS", f"\0mydyno-test-{tmp_path}")
    return Settings(cache=tmp_path / "cache", data=tmp_path / "data", engine=engine, server_user=None)


@pytest.fixture
def no_treatments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "TREATMENTS", {})
