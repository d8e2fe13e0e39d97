"""Dask's scheduler and worker without their HTTP servers: nothing of a study listens on a port."""

from __future__ import annotations

from typing import Any

from distributed import Scheduler, Worker


class QuietScheduler(Scheduler):
    """A scheduler that is reached inside of this process alone."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start none."""


class QuietWorker(Worker):
    """A worker that is reached inside of this process alone."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Start none."""
