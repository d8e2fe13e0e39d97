from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import mydyno
from mydyno.hosts.paths import ENGINE_PROGRAMS, HostPaths
from tests.support.fake_host import FakeHost, tracing_host
from tests.support.fake_script import Script


@pytest.fixture(scope="session", autouse=True)
def no_power_failure() -> Iterator[None]:
    """Nothing here survives a power failure, and fsync would wait for the disk in each fake study."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return tracing_host(tmp_path / "host")


@pytest.fixture
def paths(tmp_path: Path, host: FakeHost) -> HostPaths:
    """A host that can do everything, with an engine, and a lock that no real study on this host holds."""
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
        root=host,
    )


@pytest.fixture
def script() -> Script:
    return Script()
