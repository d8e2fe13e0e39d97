"""Which folders of the cache an experiment needs on other hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from mydyno.fleet import study_packages
from mydyno.fleet.study_packages import package_folders
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from tests.support.fake_script import experiment


async def test_of_the_servers_that_were_added_only_those_used(
    tmp_path: Path, paths: HostPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("own", "other"):
        (tmp_path / "servers" / "added" / name / "tree" / "bin").mkdir(parents=True)

    async def builds(*_: object) -> dict[str, object]:
        program = tmp_path / "servers/added/own/tree/bin/mysqld"
        return {"glibc": SimpleNamespace(program=program, folders=())}

    async def drivers(asked: Experiment, *_: object) -> tuple[dict[str, object], None]:
        del asked
        return {}, None

    monkeypatch.setattr(study_packages, "get_builds", builds)
    monkeypatch.setattr(study_packages, "get_drivers", drivers)
    found = await package_folders(experiment(), replace(paths, cache=tmp_path), lambda _: None)
    assert found == [tmp_path / "servers" / "added" / "own"]
