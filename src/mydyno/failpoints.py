"""Failpoints: where a test can stop a study, to end this process in a known state.

MYDYNO_TEST_STOP_AT is a list of failpoints, separated by commas, to be reached in this order; at the last one the
process stops (SIGSTOP) until it is continued, while the processes that it started run on. Unset, as in every study that
is not a test, a failpoint costs one reading of the environment.

| failpoint | reached |
|---|---|
| an event of journal.jsonl | when it is in the journal |
| `start PROGRAM` | when a program of that file name has been started |
| `end PROGRAM` | when it has got SIGTERM |
| `load` | after each second of load at a level (design "blocks") |
| `slice`, `warm-up`, … | before a slice of that kind (design "interleaved") |
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

STOP_AT = "MYDYNO_TEST_STOP_AT"


def failpoint(name: str, kill: Callable[[int, int], None] = os.kill) -> None:
    """The study has reached this failpoint."""
    awaited = os.environ.get(STOP_AT, "")
    if awaited:
        first, _, rest = awaited.partition(",")
        if first == name:
            os.environ[STOP_AT] = rest
            if not rest:
                kill(os.getpid(), signal.SIGSTOP)
