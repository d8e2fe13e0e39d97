"""How a study that was interrupted, or that the host stopped, ends on the command line."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
import typer

from mydyno.cli import ExitCode, cancel_on_signals
from mydyno.cli.study_runner import FleetProgress, run_study_of
from mydyno.errors import HostError, StudyError
from mydyno.model.stored.summary import Summary
from mydyno.store.study_folder import StudyFolder


def ended_by(error: BaseException, folder: Path | None) -> None:
    """A study that ends so, after it has made its folder, or before."""

    async def work(watcher: FleetProgress) -> tuple[StudyFolder, Summary]:
        if folder is not None:
            watcher.kept_in(folder)
        raise error

    run_study_of(work, None)


def test_an_interrupted_study_is_named_with_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        ended_by(asyncio.CancelledError(), tmp_path / "my studies/fake-1")
    assert ended.value.exit_code == ExitCode.INTERRUPTED
    words = capsys.readouterr().err
    assert f"to continue: mydyno resume '{tmp_path}/my studies/fake-1'\n" in words


def test_what_was_interrupted_before_it_began_is_not_to_be_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        ended_by(asyncio.CancelledError(), None)
    assert capsys.readouterr().err == "interrupted; the host is restored; no study was begun\n"


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_hang_up_cancels_a_study_unless_it_is_ignored_as_by_nohup(handler: signal.Handlers) -> None:
    async def is_left_alone() -> bool:
        cancel_on_signals(asyncio.get_running_loop().create_future())
        return signal.getsignal(signal.SIGHUP) == handler

    before = signal.signal(signal.SIGHUP, handler)
    try:
        assert asyncio.run(is_left_alone()) == (handler == signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_full_disk_is_the_hosts_before_the_study_begins_and_the_studys_afterwards(tmp_path: Path) -> None:
    full = OSError(28, "No space left on device", "/cache/x")
    with pytest.raises(HostError, match="No space left on device: /cache/x") as early:
        ended_by(full, None)
    assert "resume" not in str(early.value)
    with pytest.raises(StudyError) as late:
        ended_by(full, tmp_path / "fake-1")
    assert late.value.hint == f"fix the cause, then continue: mydyno resume {tmp_path}/fake-1"
