"""`mydyno client-network`: the network of a host of the load, for a block on another host."""

from __future__ import annotations

import asyncio
import sys

import typer

from mydyno.cli import ExitCode, cancel_on_signals
from mydyno.hosts.paths import HostPaths


def client_network() -> None:
    """Shape and time this host's network for a block on another host (for `run --hosts` with clients). Requests are
    JSON lines on standard input; everything is undone when it ends.
    """
    left = asyncio.run(_until_signal())
    for what in left:
        print(f"could not be undone: {what}", file=sys.stderr)
    if left:
        raise typer.Exit(ExitCode.STUDY_FAILED)


async def _until_signal() -> list[str]:
    # pydantic and the rest are loaded after the arguments are known to be right.
    from mydyno.fleet.block_clients import serve_block

    def write(line: str) -> None:
        print(line, flush=True)

    task = asyncio.ensure_future(serve_block(HostPaths.resolve(), write))
    cancel_on_signals(task)
    try:
        return await task
    except asyncio.CancelledError:
        return []
