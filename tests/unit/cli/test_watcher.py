"""What the terminal prints while a study runs: never an effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.cli.watcher import ProgressWatcher
from mydyno.hosts.paths import HostPaths
from mydyno.model.stored.records import DriverFinding
from mydyno.study import Request, run_study
from tests.support.fake_environment import opener
from tests.support.fake_script import Script, experiment


async def test_no_run_of_the_block_design_shows_its_rate(
    script: Script, paths: HostPaths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.qps = lambda *_: 4321.0
    script.findings = lambda _run, step: (
        (DriverFinding(rule="dropped", level="invalid", text="7 %"),) if step.connections == 8 else ()
    )
    asked = experiment(design={"blocks": 1})
    with ProgressWatcher(1.0, 1.0) as watcher:
        await run_study(Request(asked, "name = 'fake'", tmp_path / "studies"), paths, watcher, opener(script))
    shown = capsys.readouterr().err
    assert shown.count("block  1 · jemalloc · ") == 1
    assert "oltp_read_only-8 FAILED: it did not keep up" in shown
    assert "4,321" not in shown
    assert "queries" not in shown


def test_a_command_in_a_message_is_never_broken_into_lines(capsys: pytest.CaptureFixture[str]) -> None:
    command = f"mydyno resume studies/{'long-' * 12}20261126T214157Z"
    with ProgressWatcher(1.0, 1.0) as watcher:
        watcher.say(f"interrupted; the host is restored; finished runs are kept; to continue: {command}")
    assert capsys.readouterr().err.endswith(f"{command}\n")
