"""A study without some or all of its telemetry says so in every format."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.reports import write
from mydyno.reports.formats import print_answer
from mydyno.study import run_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment

REASON = "its file system is on device 0:28"


@pytest.mark.parametrize("kind", ["blocks", "interleaved"])
@pytest.mark.parametrize("family", ["disk", "everything"])
async def test_a_family_that_no_run_has_is_named_with_its_reason(
    script: Script, paths: HostPaths, tmp_path: Path, kind: str, family: str
) -> None:
    script.unsampled = {family: REASON}
    asked = experiment(design={"kind": kind, "blocks": 1, "cycles": 2, "quiet_wait": 0})
    request = Request(asked, "name = 'fake'", tmp_path / "studies", ("mydyno", "run", "fake"))
    folder, summary = await run_study(request, paths, Watched(script), opener(script))
    assert [run.unsampled for run in folder.runs()] == [{family: REASON}] * 3
    assert [run.unsampled for run in summary.runs] == [{family: REASON}] * 3
    out = StringIO()
    print_answer(folder, out)
    name = "host and servers" if family == "everything" else family
    sentence = f"Not sampled in 3 of 3 runs: {name} ({REASON})."
    assert sentence in " ".join(out.getvalue().split())
    assert sentence in write(folder, "md")
    assert sentence in Path(write(folder, "html")).read_text(encoding="utf-8")
    assert REASON in write(folder, "json")
