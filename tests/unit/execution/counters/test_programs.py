"""A program that traces until SIGINT: here a shell, in place of bpftrace and perf."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from mydyno.errors import HostError
from mydyno.execution.counters.programs import _Program
from mydyno.hosts.local import LocalHost, Process

TRACING = "trap 'echo found; exit 0' INT; echo ready; while :; do sleep 0.01; done"


class Shell(_Program[str]):
    """Finds what its script prints after SIGINT."""

    name = "shell"
    ready_timeout_s = 30.0
    script = TRACING

    async def _start(self, pids: Sequence[int]) -> Process:
        assert list(pids) == []
        with self.output.open("wb") as output:
            return await self._host.start(["/bin/sh", "-c", self.script], stdout=output.fileno())

    @property
    def output(self) -> Path:
        return self._folder / "output"

    def _traces(self) -> bool:
        return "ready" in self._words()

    async def _found(self, exit_code: int) -> str:
        return f"{exit_code} {self._words()}"

    def _words(self) -> str:
        return self.output.read_text().strip().replace("\n", " ")

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process


def shell(folder: Path, script: str = TRACING, ready_timeout_s: float = 30.0) -> Shell:
    made = Shell(LocalHost("programs", None), folder, ())
    made.script, made.ready_timeout_s = script, ready_timeout_s
    return made


async def test_it_traces_from_begin_to_end_in_a_folder_that_is_removed(tmp_path: Path) -> None:
    program = shell(tmp_path)
    await program.begin()
    assert program.process.exit_code is None
    assert [path.name.startswith("shell-") for path in tmp_path.iterdir()] == [True]
    assert await program.end() == "0 ready found"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "ready_timeout_s", "words"),
    [
        ("echo no rights; exit 7", 30.0, "shell ended with exit code 7: no rights"),
        ("echo compiling; exec sleep 60", 0.2, "shell did not trace within 0 s: compiling"),
    ],
    ids=["ends", "waits"],
)
async def test_what_does_not_trace_is_an_error_with_its_words(
    tmp_path: Path, script: str, ready_timeout_s: float, words: str
) -> None:
    program = shell(tmp_path, script, ready_timeout_s)
    with pytest.raises(HostError, match=words):
        await program.begin()
    assert program.process.exit_code is not None
    assert list(tmp_path.iterdir()) == []


async def test_an_abandoned_program_ends_without_what_it_found(tmp_path: Path) -> None:
    program = shell(tmp_path)
    await program.begin()
    await program.abandon()
    assert program.process.exit_code == -signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


async def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    program = shell(tmp_path, "exec sleep 60")
    beginning = asyncio.ensure_future(program.begin())
    while not (tmp_path.is_dir() and [*tmp_path.glob("shell-*/output")]):
        await asyncio.sleep(0.005)
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    assert list(tmp_path.iterdir()) == []
