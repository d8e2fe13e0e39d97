"""What a run of tests leaves for ./test while it goes on, and for whoever looks after it was cut off.

Written by the process that prints the results; `stem` is the path of the part's log without its suffix:

- STEM.progress: how many tests are done, and which are running since when (the longest first); gone when the part ends
- STEM.failed: the IDs of failed tests, one a line: also of those whose set-up, clean-up or collection failed, or whose
  process was lost
- STEM.reasons: ID, tab, the line of the failure that says what went wrong
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

SHOWN = 6
"""Tests that are running; more do not fit into a line."""


class Progress:
    """A pytest plugin."""

    def __init__(self, stem: Path) -> None:
        self.stem = stem
        self.running: dict[str, str] = {}
        self.failed: set[str] = set()
        self.all = self.done = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Not called in the controller of several processes."""
        self.all = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Every process collects the same tests."""
        self.all = len(ids)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.running[nodeid] = time.strftime("%H:%M:%S")
        self._write()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.running.pop(nodeid, None)
        self.done += 1
        self._write()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._note(report.nodeid, report.longreprtext)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note(report.nodeid, report.longreprtext)

    def _note(self, nodeid: str, words: str) -> None:
        if nodeid in self.failed:
            return
        self.failed.add(nodeid)
        lines = [line for line in words.splitlines() if line.startswith("E  ")] or words.splitlines()[-1:] or [""]
        with self.stem.with_suffix(".failed").open("a") as file:
            file.write(f"{nodeid}\n")
        with self.stem.with_suffix(".reasons").open("a") as file:
            file.write(f"{nodeid}\t{lines[0].removeprefix('E').strip()}\n")

    def _write(self) -> None:
        names = [f"{nodeid} (since {began})" for nodeid, began in [*self.running.items()][:SHOWN]]
        failed = f", {len(self.failed)} failed" if self.failed else ""
        running = "; ".join(names) if names else "none is running"
        text = f"{self.stem.name}: {self.done} of {self.all} done{failed}; {running}\n"
        self.stem.with_suffix(".progress").write_text(text)
