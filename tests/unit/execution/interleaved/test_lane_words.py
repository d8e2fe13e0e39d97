"""How the end of a server is worded."""

from __future__ import annotations

import pytest

from mydyno.execution.interleaved.lane import server_end


@pytest.mark.parametrize(
    ("exit_code", "kills", "words"),
    [
        (-9, 1, "the kernel killed the server for lack of memory (exit code -9)"),
        (137, 2, "the kernel killed the server for lack of memory (exit code 137)"),
        (-9, 0, "the server ended with exit code -9"),
        (-11, 1, "the server ended with exit code -11"),
    ],
)
def test_a_kill_for_lack_of_memory_is_named(exit_code: int, kills: int, words: str) -> None:
    assert server_end(exit_code, kills) == words
