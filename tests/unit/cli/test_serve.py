"""`serve` and `run --serve` as processes: wrong arguments, the end, and the end of a study that is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mydyno.cli.study_runner import side_server
from mydyno.web.server import Place, listening
from tests.support import ROOT
from tests.support.patience import wait_until
from tests.unit.cli.test_command_line import mydyno

LIMIT_S = 60


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--studies", "nowhere"], "--studies nowhere: no such folder"),
        (["--studies", ".", "--port", "1", "--socket", "x"], "exclude each other"),
        (["--studies", ".", "--socket", "x", "--open"], "cannot open a Unix socket"),
        (["--studies", ".", "--socket", "x" * 200], "longer than 107 bytes"),
        (["--studies", ".", "--socket", "missing/x"], "No such file or directory"),
        (["--studies", ".", "--port", "70000"], "less than or equal to 65535"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = mydyno(tmp_path, "serve", *arguments)
    assert done.returncode == 2 and words in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_refused_if_it_was_asked_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Exception, match=f"--port {port}"), listening(Place(port)):
            pass


def test_without_a_port_another_one_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with listening(Place(usual_port=port)) as (found, origin):
            assert found.getsockname()[0] == "127.0.0.1"
            assert origin != f"http://127.0.0.1:{port}"


def test_a_file_in_the_place_of_a_socket_is_kept(short_folder: Path) -> None:
    (short_folder / "file").write_text("mine")
    with pytest.raises(Exception, match="Address already in use"), listening(Place(socket=short_folder / "file")):
        pass
    assert (short_folder / "file").read_text() == "mine"


def test_the_socket_of_a_server_that_was_killed_is_replaced(short_folder: Path) -> None:
    path = short_folder / "serve.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    with listening(Place(socket=path)) as (found, _):
        found.listen()
        with pytest.raises(Exception, match="Address already in use"), listening(Place(socket=path)):
            pass
        assert path.is_socket(), "a server that lives keeps its socket"
    assert not path.exists()


@pytest.mark.slow
def test_the_server_beside_a_study_ends_with_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("MYDYNO_CACHE", str(tmp_path / "cache"))
    with side_server(tmp_path / "studies"):
        words = capfd.readouterr()
        url = words.err.partition("live: ")[2].strip()
        assert url.startswith("http://127.0.0.1:") and words.out == ""
        port = int(url.rpartition(":")[2].partition("/")[0])
        socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)


KILLED = """
import os, signal, sys
from pathlib import Path
from mydyno.cli import study_runner
start = study_runner.start_apart
serve = "from mydyno.cli import main; from mydyno.web import server; server.LINGER_S = 3.0; main()"
study_runner.start_apart = lambda argv: start([argv[0], "-c", serve, *argv[3:]])
with study_runner.side_server(Path(sys.argv[1])):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_after_kill_9_of_the_study_the_server_stays_a_while_and_ends(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MYDYNO_CACHE": str(tmp_path / "cache")}
    study = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "studies")], env=environment, stderr=subprocess.PIPE, text=True
    )
    assert study.stderr is not None
    with study.stderr:
        url = study.stderr.readline()
        assert study.wait(LIMIT_S) == -signal.SIGKILL
    port = int(url.partition("127.0.0.1:")[2].partition("/")[0])
    socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S).close()  # its pages report the end
    assert wait_until(lambda: not listens(port), LIMIT_S), "the server is still there"


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S).close()
    except ConnectionRefusedError:
        return False
    return True
