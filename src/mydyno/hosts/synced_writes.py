"""How fast the disk below a folder takes small writes that must be on it: what a commit waits for.

Measured once before a study, while nothing of it runs, for half a second.
"""

from __future__ import annotations

import os
import time
from math import nan
from pathlib import Path

from mydyno.errors import HostError
from mydyno.files.private import new_file

MEASURED_S = 0.5
_WRITTEN = bytes(4096)


def synced_writes_per_s(folder: Path) -> float:
    """Writes of 4 KB to the folder's disk, each with fdatasync(2), one after the other; NaN if it failed."""
    path = folder / f".synced-{os.getpid()}"
    try:
        descriptor = new_file(path)
        try:
            count, began = 0, time.monotonic()
            while time.monotonic() - began < MEASURED_S:
                os.pwrite(descriptor, _WRITTEN, 0)
                os.fdatasync(descriptor)
                count += 1
            return count / (time.monotonic() - began)
        finally:
            os.close(descriptor)
            path.unlink()
    except (HostError, OSError):
        return nan
