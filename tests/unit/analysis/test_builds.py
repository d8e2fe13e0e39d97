"""The section on builds from source: the programs of each arm, and the effect in the blocks of each layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mydyno.analysis import builds
from mydyno.document.result import StudyResult
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.plan import PlannedRun
from mydyno.model.stored.records import Evidence
from mydyno.reports.page import render_page
from mydyno.store.study_folder import StudyFolder
from mydyno.study import run_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment


def facts(arm: str, layout: int) -> dict[str, Any]:
    return {
        "name": f"x-{arm}", "origin": "/src/x", "ref": arm, "commit": arm * 20, "subject": f"Make <{arm}>",
        "author": "Ada",
        "date": "2026-11-23T10:00:00Z", "command": "make", "environment": {"CFLAGS": "-O2"}, "layout": layout,
        "padding_bytes": {}, "recipe": "r", "sha256": f"{layout}{arm}" * 8, "build_id": "", "took_s": 1.0,
        "compiled_by": ["GCC: 12.2.0"], "compilers": ["cc 12.2.0"], "ccache": True,
    }  # fmt: skip


@pytest.fixture
async def folder(script: Script, paths: HostPaths, tmp_path: Path) -> StudyFolder:
    """A study whose second arm has two builds; the second of them is 10 % slower."""
    of = {name: {"server": {"build": {"git": str(tmp_path), "command": "make", "ref": name, "builds": count}}}
          for name, count in (("old", 1), ("new", 2))}  # fmt: skip

    def evidence(run: PlannedRun | None) -> Evidence:
        assert run is not None
        return Evidence(treatment="server", holds=True, text="it runs", facts={"build": facts(run.arm, run.build)})

    script.evidence = evidence
    script.qps = lambda run, _step, _second: 900.0 if run is not None and run.build == 2 else 1000.0
    request = Request(experiment(("old", "new"), treatments=of, design={"blocks": 6}), "", tmp_path / "studies")
    made, _ = await run_study(request, paths, Watched(script), opener(script))
    return made


async def test_each_build_has_its_program_and_each_layout_its_effect(folder: StudyFolder) -> None:
    result = StudyResult.load(folder)
    section = builds.part(result)
    assert section is not None
    assert section.says == "3 programs"
    assert list(result.builds) == [("old", 1), ("new", 1), ("new", 2)]
    assert "Make &lt;new&gt;" in section.html
    assert "/src/x: CFLAGS=-O2 make (cc 12.2.0, ccache)" in section.html
    (table,) = [builds._layouts(result)]
    cells = [[cell if isinstance(cell, str) else cell.text for cell in row] for row in table.rows]
    assert sorted({(row[2], row[3], row[4]) for row in cells}) == [("1", "3", "0 %"), ("2", "3", "−10 %")]
    page = render_page(folder)
    assert "Builds from source" in page
    assert "1 to 2 builds per arm" in page


async def test_a_study_without_builds_has_no_such_section(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    request = Request(experiment(design={"blocks": 1}), "", tmp_path / "studies")
    made, _ = await run_study(request, paths, Watched(script), opener(script))
    assert builds.part(StudyResult.load(made)) is None
