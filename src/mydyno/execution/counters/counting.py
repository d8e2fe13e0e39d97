"""A counter on a few servers during a slice; slices of such counts are in counted_slices.py."""

from __future__ import annotations

from typing import Protocol, TypeVar

Counted_co = TypeVar("Counted_co", covariant=True)


class Counting(Protocol[Counted_co]):
    """Counts on a few servers while it lasts."""

    async def begin(self) -> None:
        """Count from now on. Raises StudyError, HostError or OSError."""

    async def end(self) -> Counted_co:
        """What was counted. Raises as begin()."""
