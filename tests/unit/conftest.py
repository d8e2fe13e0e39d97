from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.hosts import lock
from mydyno.hosts.settings import Settings
from mydyno.running import lane
from mydyno.running import run as run_module
from mydyno.treatments import catalogue
from tests.support.fake_bench import FakeTreatment, Script


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


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    made = Script()
    for module in (run_module, lane):
        monkeypatch.setattr(module, "treatments_of", lambda arm: [FakeTreatment(made)] if arm.treatments else [])
    return made
