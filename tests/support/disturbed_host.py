"""Tests on a host whose CPUs are taken away by a hypervisor: what fails meanwhile says little, and is tried again.

A failure while all CPUs were there counts at once, and so does the third one, but for tests of what a host carries.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

ATTEMPTS = 3
STOLEN_SHARE = 0.05
"""Of all CPU time while the test ran."""


def cpu_times() -> tuple[int, int]:
    """(time that the hypervisor gave to others, all time) of all CPUs since boot, in ticks (proc_stat(5))."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return fields[7], sum(fields)


def _not_tested(item: pytest.Item, reports: list[pytest.TestReport], share: float) -> None:
    """Of tests that judge what a host carries (mark needs_cpus) nothing is known then, and that is said."""
    if item.get_closest_marker("needs_cpus") is None:
        return
    words = f"{share:.0%} of the CPUs' time was taken from this host in the last of {ATTEMPTS} attempts"
    print(f"\nNOT TESTED HERE: {item.nodeid}: {words}", file=sys.__stderr__)
    for report in reports:
        if report.failed:
            report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {words}")


def run_again_where_disturbed(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """pytest_runtest_protocol for one test: fixtures, those of its module and session too, are made anew each time."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for attempt in range(1, ATTEMPTS + 1):
        stolen_before, all_before = cpu_times()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        stolen, whole = cpu_times()
        share = (stolen - stolen_before) / max(whole - all_before, 1)
        failed = any(report.failed for report in reports)
        if not failed or share < STOLEN_SHARE:
            break
        if attempt == ATTEMPTS:
            _not_tested(item, reports, share)
            break
        words = f"TRIED AGAIN: {item.nodeid} failed while {share:.0%} of the CPUs' time was taken from this host"
        print(f"\n{words}", file=sys.__stderr__)
        item.session._setupstate.teardown_exact(None)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
