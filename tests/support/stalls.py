"""How long this host stood still, or let this process wait for a CPU: a thread that wakes up too late notices."""

from __future__ import annotations

import threading
from time import monotonic, process_time  # by name: tests replace those of the module

STEP_S = 0.05
LEAST_S = 0.2
"""Later than this is a stall. A thread also waits while another one holds the interpreter, which takes CPU time."""


class Stalls:
    """Counts from its first reading on."""

    def __init__(self) -> None:
        self.stalled_s = 0.0
        self._thread: threading.Thread | None = None
        self._never = threading.Event()

    def __call__(self) -> float:
        """Seconds of all stalls so far."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True, name="stalls")
            self._thread.start()
        return self.stalled_s

    def _watch(self) -> None:
        while True:
            began_s, used_s = monotonic(), process_time()
            self._never.wait(STEP_S)
            late_s = monotonic() - began_s - STEP_S - (process_time() - used_s)
            if late_s >= LEAST_S:
                self.stalled_s += late_s
