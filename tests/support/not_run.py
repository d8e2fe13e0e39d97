"""Checks that this host does not allow, or that lack a package whose archive does not answer: they are listed with
their reasons at the end of a session.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from mydyno.errors import ArchiveError

PROPERTY = "not run"
_noted: list[str] = []
"""By the test that is running in this process."""


def note_not_run(what: str) -> None:
    """List what the current test leaves out, with the reason. The test itself passes by what it does check."""
    _noted.append(what)


class ListNotRun:
    """A pytest plugin: notes and skips travel with the reports of tests, also from pytest-xdist's workers."""

    def __init__(self) -> None:
        self.found: dict[str, None] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.excinfo is not None and isinstance(call.excinfo.value, ArchiveError):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, f"Skipped: {call.excinfo.value.message}")
        report.user_properties = [*report.user_properties, *((PROPERTY, words) for words in _noted)]
        _noted.clear()
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, words in report.user_properties:
            if name == PROPERTY:
                self.found[str(words)] = None
        if report.skipped:
            words = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.found[f"{report.nodeid}: {words.removeprefix('Skipped: ')}"] = None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.found:
            terminalreporter.section("not run here")
        for words in self.found:
            terminalreporter.line(f"not run here: {words}")
