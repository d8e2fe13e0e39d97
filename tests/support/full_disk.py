"""A disk that is full, as far as this process is concerned."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(size_bytes: int) -> Iterator[None]:
    """Within it no file can be written beyond this size (RLIMIT_FSIZE): OSError, "File too large"."""
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
