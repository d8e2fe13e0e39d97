"""The control connection: closed even where its user is cancelled while it is being made."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from mydyno.errors import ServerError
from mydyno.servers.sql import Address, Control
from tests.support.patience import HANG_S


class FakeConnection:
    """Counts how often it is closed."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    def close(self) -> None:
        self.closed.set()


async def test_a_connection_that_is_made_after_its_user_was_cancelled_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection, begun, go_on = FakeConnection(), threading.Event(), threading.Event()

    def connect(_: Control) -> Any:
        begun.set()
        assert go_on.wait(HANG_S)
        return connection

    monkeypatch.setattr(Control, "_connect", connect)
    user = asyncio.ensure_future(Control(Address(user="dyno", password="x", socket="/nowhere")).__aenter__())
    await asyncio.to_thread(begun.wait, HANG_S)
    user.cancel()
    with pytest.raises(asyncio.CancelledError):
        await user
    assert not connection.closed.is_set()
    go_on.set()
    await asyncio.wait_for(connection.closed.wait(), HANG_S)


async def test_a_connection_that_fails_leaves_no_socket_to_the_garbage_collector(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ResourceWarning)
        with pytest.raises(ServerError, match="No such file or directory"):
            await Control(Address(user="dyno", password="x", socket=str(tmp_path / "missing.sock"))).__aenter__()
        gc.collect()
    assert [str(warning.message) for warning in found] == []
