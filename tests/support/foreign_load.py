"""Tests that judge what the host carries (mark needs_cpus), where others take the CPUs: nothing is known then.

Such a test runs alone, so what uses the CPUs in the moment before it and in the moment after it is not of the tests.
Where it fails and that was much, or the hypervisor took much meanwhile, it is listed as not run, with the measurement.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

LOOK_S = 0.3
FOREIGN_SHARE = 0.15
"""Share of all CPUs that other programs use, before or after the test, from which on a failure counts as disturbed. A
test's own servers that wait for queries use a hundredth."""
STOLEN_SHARE = 0.05
"""Stolen share of all CPU time of the test from which on a failure counts as disturbed."""
IDLE, WAITING, STEAL, COLUMNS = 3, 4, 7, 8
"""Columns of /proc/stat (proc(5))."""

Ticks = tuple[int, int, int]
"""Used by programs, stolen, all: of all CPUs, since the host started."""


def ticks_now() -> Ticks:
    """From /proc/stat."""
    columns = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1 : COLUMNS + 1]]
    return sum(columns) - columns[IDLE] - columns[WAITING] - columns[STEAL], columns[STEAL], sum(columns)


class NotJudgedUnderForeignLoad:
    """A pytest plugin."""

    def __init__(self, now: Callable[[], Ticks] = ticks_now, look: Callable[[], None] = lambda: time.sleep(LOOK_S)):
        self.now = now
        self.look = look
        self.before_share = 0.0
        self.began: Ticks = (0, 0, 0)

    def _used_share(self) -> float:
        used, _, whole = self.now()
        self.look()
        used_after, _, whole_after = self.now()
        return (used_after - used) / max(whole_after - whole, 1)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if item.get_closest_marker("needs_cpus") is not None:
            self.before_share = self._used_share()
            self.began = self.now()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed and item.get_closest_marker("needs_cpus") is not None and (words := self._disturbance()):
            report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: NOT RUN: {words}")
        return report

    def _disturbance(self) -> str:
        """What disturbed the test; empty if nothing did."""
        _, stolen, whole = (now - began for now, began in zip(self.now(), self.began, strict=True))
        if stolen / max(whole, 1) >= STOLEN_SHARE:
            return f"{stolen / max(whole, 1):.0%} of the CPUs' time was taken from this host"
        foreign = max(self.before_share, self._used_share())
        return f"other programs use {foreign:.0%} of this host's CPUs" if foreign >= FOREIGN_SHARE else ""
