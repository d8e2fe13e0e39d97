"""The user's commands between runs on a server that runs already."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mydyno.model.definition.experiment import HooksSpec
from mydyno.servers.running.external import LOG, ExternalHooks, UserCommands
from mydyno.servers.sql import Address
from tests.support.patience import HANG_S


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
