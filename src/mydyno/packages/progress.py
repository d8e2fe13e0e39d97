"""Reports the progress of a download by the bytes in the folder that a package client writes to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

Say = Callable[[str], None]
"""Reports to the user what is being done."""
INTERVAL_S = 5.0


def silent(text: str) -> None:
    """Reports nothing."""
    del text


@asynccontextmanager
async def told_progress(say: Say, what: str, folder: Path, total_bytes: int) -> AsyncIterator[None]:
    """While the body runs, report every few seconds how much of about `total_bytes` has been downloaded."""
    say(f"downloading {what}: about {total_bytes / 1e6:.0f} MB")
    task = asyncio.create_task(_tell(say, what, folder, total_bytes))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _tell(say: Say, what: str, folder: Path, total_bytes: int) -> None:
    before = _bytes_below(folder)
    while True:
        await asyncio.sleep(INTERVAL_S)
        come = max(0, _bytes_below(folder) - before)
        say(f"  {what}: {come / 1e6:.0f} of about {total_bytes / 1e6:.0f} MB")


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # a client renames its partial files at any moment
            total += path.stat().st_size if path.is_file() else 0
    return total
