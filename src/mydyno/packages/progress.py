"""Reports the progress of a download by the bytes in the folder that a package client writes to.

A file by URL, for archives that a user names: http and https, with the user's own proxies.
"""

from __future__ import annotations

import asyncio
import http.client
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from mydyno.errors import HostError

Say = Callable[[str], None]
"""Reports to the user what is being done."""
INTERVAL_S = 5.0
TIMEOUT_S = 60.0
PIECE_BYTES = 1 << 20


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


def is_url(text: str) -> bool:
    """Whether it is a URL that download() takes."""
    return text.startswith(("http://", "https://"))


async def download(url: str, path: Path, say: Say) -> None:
    """Write what the URL has to the path. Raises HostError with the server's or the network's words."""
    ended = threading.Event()
    try:
        response = await asyncio.to_thread(urllib.request.urlopen, url, timeout=TIMEOUT_S)
        size_bytes = int(response.headers.get("Content-Length") or 0)
        async with told_progress(say, path.name, path.parent, size_bytes):
            await asyncio.to_thread(_copy, response, path, ended)
    except urllib.error.HTTPError as error:
        raise HostError(f"{url}: {error.code} {error.reason}", "is the file's name right?") from error
    except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise HostError(f"{url} cannot be downloaded: {reason}", "download it yourself: --archive FILE") from error
    finally:
        ended.set()  # a thread cannot be cancelled, and asyncio waits for it


def _copy(response: http.client.HTTPResponse, path: Path, ended: threading.Event) -> None:
    expected = response.headers.get("Content-Length")
    with response, path.open("wb") as file:
        written = 0
        while not ended.is_set() and (piece := response.read1(PIECE_BYTES)):
            written += file.write(piece)
    if expected is not None and written != int(expected):
        raise OSError(f"{written} of {expected} bytes were received")
