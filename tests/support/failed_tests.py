"""Writes the IDs of the tests that failed, one a line, for ./test, which executes a few of them once more, alone."""

from __future__ import annotations

from pathlib import Path

import pytest


class ListFailedTests:
    """A pytest plugin of the process that prints the results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failed: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = None

    def pytest_sessionfinish(self) -> None:
        self.path.write_text("".join(f"{one}\n" for one in self.failed))
