"""The user's commands between runs on a server that runs already."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import ClassVar

import pytest

from mydyno.errors import HostError, ServerError
from mydyno.model.definition.experiment import HooksSpec
from mydyno.servers.running.external import LOG, ExternalHooks, UserCommands
from mydyno.servers.sql import Address
from tests.support.patience import HANG_S


class Restarting(ExternalHooks):
    """Hooks whose server is up for so many seconds at each look, then always for the last of these; 0: it is down."""

    async def _uptime_s(self) -> float:
        uptime_s = self.uptimes_s.pop(0) if len(self.uptimes_s) > 1 else self.uptimes_s[0]
        if not uptime_s:
            raise ServerError("Connection refused")
        return uptime_s

    uptimes_s: ClassVar[list[float]]


@pytest.mark.parametrize("restarts", [True, False])
async def test_the_server_may_be_restarted_after_the_command_returned(tmp_path: Path, restarts: bool) -> None:
    spec = HooksSpec(restart="true", timeout=HANG_S if restarts else 0.01)
    hooks = Restarting(spec, UserCommands(), "this host", Address("bench", b""), poll_s=0.0)
    Restarting.uptimes_s = [1000, 1001, *([0, 1] if restarts else [])]
    if restarts:
        await hooks.before_run(tmp_path)
    else:
        with pytest.raises(HostError, match="did not restart the server: it has been up for 1001 s"):
            await hooks._await_new_server(time.monotonic())


@pytest.mark.parametrize("interruptions", [1, 2])
async def test_a_restore_that_is_interrupted_is_finished_unless_it_is_interrupted_again(
    tmp_path: Path, interruptions: int
) -> None:
    begun, go_on, done = (tmp_path / name for name in ("begun", "go-on", "done"))
    wait = f"while ! test -e {go_on}; do sleep 0.01; done"
    spec = HooksSpec(restore=f"touch {begun}; {wait}; touch {done}", timeout=HANG_S)
    hooks = ExternalHooks(spec, UserCommands(), "this host", Address("bench", b""))
    running = asyncio.create_task(hooks.before_run(tmp_path))
    while not begun.exists():
        await asyncio.sleep(0.01)
    for _ in range(interruptions):
        running.cancel()
        await asyncio.sleep(0)
    if interruptions == 1:
        go_on.touch()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert done.exists() == (interruptions == 1)
    log = (tmp_path / LOG).read_text()
    assert ("exit code 0" if interruptions == 1 else "ended before it was finished") in log
