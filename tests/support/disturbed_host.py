"""Tests on a host whose CPUs are taken away, or that stands still: what fails then says little, and is tried again.

A failure while all CPUs were there counts at once, and so does the third one, but for tests of what a host carries.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from tests.support.stalls import Stalls

ATTEMPTS = 3
STOLEN_SHARE = 0.05
"""Of all CPU time since the first test of the module began: its fixtures may be what was disturbed."""
STALLED_S = 0.3
"""In the same time: the shortest loads of tests last 0.1 to 0.5 s."""
SHOWN_LINES = 25
"""Of the failure of an attempt that is made again."""
FURTHER_ATTEMPTS_S = 300.0
"""All further attempts of a session together: the whole has to end in time on such a host too."""


def cpu_times() -> tuple[float, float]:
    """(time that the hypervisor gave to others, all time) of all CPUs since boot, in ticks (proc_stat(5))."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return fields[7], sum(fields)


class TryAgainWhereDisturbed:
    """A pytest plugin. Fixtures, those of the module and of the session too, are made anew for each attempt."""

    def __init__(
        self,
        cpu_times: Callable[[], tuple[float, float]] = cpu_times,
        clock_s: Callable[[], float] = time.monotonic,
        stalled_s: Callable[[], float] | None = None,
    ) -> None:
        """`stalled_s`: for how long the host stood still so far."""
        self.cpu_times = cpu_times
        self.clock_s = clock_s
        self.stalled_s = Stalls() if stalled_s is None else stalled_s
        self.left_s = FURTHER_ATTEMPTS_S
        self.module: Path | None = None
        self.module_began = (0.0, 0.0, 0.0)

    def now(self) -> tuple[float, float, float]:
        return *self.cpu_times(), self.stalled_s()

    def disturbance(self) -> str:
        """What disturbed the module's tests so far; empty if nothing did."""
        stolen, whole, stalled_s = (now - began for now, began in zip(self.now(), self.module_began, strict=True))
        share = stolen / max(whole, 1)
        if share >= STOLEN_SHARE:
            return f"{share:.0%} of the CPUs' time was taken from this host"
        return f"this host stood still for {stalled_s:.1f} s" if stalled_s >= STALLED_S else ""

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        if item.path != self.module:
            self.module, self.module_began = item.path, self.now()
        for report in self._attempts(item, nextitem):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _attempts(self, item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
        """The reports of the attempt that counts."""
        for attempt in range(1, ATTEMPTS + 1):
            began_s = self.clock_s()
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
            took_s = self.clock_s() - began_s
            self.left_s -= took_s if attempt > 1 else 0
            disturbance = self.disturbance()
            if not any(report.failed for report in reports) or not disturbance:
                return reports
            if attempt == ATTEMPTS or took_s > self.left_s:
                break
            words = f"TRIED AGAIN: {item.nodeid} failed while {disturbance}"
            print(f"\n{words}\n{_last_lines(reports)}", file=sys.__stderr__)
            item.session._setupstate.teardown_exact(None)
            self.module_began = self.now()
        if item.get_closest_marker("needs_cpus") is not None:
            _not_tested(item, reports, f"{disturbance} in attempt {attempt}")
        return reports


def _last_lines(reports: list[pytest.TestReport]) -> str:
    texts = [report.longreprtext for report in reports if report.failed]
    return "\n".join("    " + line for text in texts for line in text.splitlines()[-SHOWN_LINES:])


def _not_tested(item: pytest.Item, reports: list[pytest.TestReport], words: str) -> None:
    """Of tests that judge what a host carries (mark needs_cpus) nothing is known then: they are skipped."""
    for report in reports:
        if report.failed:
            report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {words}")
