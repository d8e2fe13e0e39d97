"""`run --serve`: `mydyno serve` beside a study, as a process of its own with the lowest priority."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.commands import end_apart, start_apart

LOWEST_PRIORITY = 19
END_TIMEOUT_S = 5.0


@contextmanager
def side_server(studies: Path, wanted: bool) -> Iterator[None]:
    """Serve the studies within it, and print the URL on stderr. Ctrl-C in the terminal does not reach the server.

    It ends with the context; after kill -9 of this process it shows for a while that the study was killed, and then
    ends too. Raises HostError if it does not start.
    """
    if not wanted:
        yield
        return
    studies.mkdir(parents=True, exist_ok=True)
    own = str(os.getpid())
    argv = [sys.executable, "-m", "mydyno.cli", "serve", "--studies", str(studies), "--study-pid", own]
    process, started = start_apart(argv)
    try:
        os.setpriority(os.PRIO_PROCESS, process.pid, LOWEST_PRIORITY)
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise HostError("the server of --serve did not start", "its message is above; or leave --serve out")
        print(f"live: {url}", file=sys.stderr, flush=True)
        yield
    finally:
        end_apart(process, started, END_TIMEOUT_S)
