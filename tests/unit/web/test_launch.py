"""Studies that are started from the browser: one at a time, with what they print."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from mydyno.errors import HostError
from mydyno.hosts.lock import study_lock
from mydyno.web.pages.design import Draft, Launcher, LaunchStatus
from tests.support.patience import wait_until

LIMIT_S = 120
BROKEN = Draft('name = "broken"\n')


@pytest.fixture
def launcher(tmp_path: Path) -> Launcher:
    (tmp_path / "studies").mkdir()
    return Launcher(tmp_path / "studies", tmp_path / "designs", f"\0mydyno-test-launch-{os.getpid()}")


def ended(launcher: Launcher) -> LaunchStatus:
    assert wait_until(lambda: launcher.status().state == "ended", LIMIT_S), launcher.status()
    return launcher.status()


@pytest.mark.slow
def test_what_a_study_prints_is_kept_with_its_exit_code(launcher: Launcher, tmp_path: Path) -> None:
    assert launcher.status().state == "none"
    launcher.start(BROKEN)
    status = ended(launcher)
    assert (status.exit_code, status.study) == (2, "")
    assert "mistakes in" in status.output and "question: is missing" in status.output
    launcher.start(Draft(BROKEN.toml, time="soon"))
    assert "--set design.time=soon" in ended(launcher).output, "the page's options are those of the command"
    assert len(list((tmp_path / "designs").glob("*/broken.toml"))) == 2
    assert all(folder.stat().st_mode & 0o777 == 0o700 for folder in (tmp_path / "designs").iterdir())


@pytest.mark.slow
def test_a_second_study_is_refused_while_one_runs_here(launcher: Launcher) -> None:
    launcher.start(BROKEN)
    process = launcher._command
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        if process.poll() is None:
            with pytest.raises(HostError, match="has not ended"):
                launcher.start(BROKEN)
            assert os.getsid(process.pid) == process.pid, "Ctrl-C of the server's terminal does not reach it"
    finally:
        os.kill(process.pid, signal.SIGCONT)
    ended(launcher)


def test_a_study_is_refused_while_another_holds_the_hosts_lock(launcher: Launcher, tmp_path: Path) -> None:
    with (
        study_lock("somebody-else", f"\0mydyno-test-launch-{os.getpid()}"),
        pytest.raises(HostError, match="another study is running on this host: somebody-else"),
    ):
        launcher.start(BROKEN)
    assert not (tmp_path / "designs").exists(), "nothing is written"


def test_a_lock_whose_holder_does_not_answer_is_held(launcher: Launcher) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0mydyno-test-launch-{os.getpid()}")
        listener.listen(1)
        with pytest.raises(HostError, match="unknown"):
            launcher.start(BROKEN)
