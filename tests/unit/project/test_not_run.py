"""What a host does not allow is listed at the end of a session, from the processes of a parallel one too."""

from __future__ import annotations

import pytest

from tests.support import ROOT

pytest_plugins = ["pytester"]
TESTS = """
import pytest
from mydyno.errors import ArchiveError
from tests.support.not_run import note_not_run

def test_partly():
    note_not_run("a refused value: no such setting")

@pytest.fixture
def found():
    note_not_run("huge pages: none are reserved")

def test_by_a_fixture(found):
    pass

def test_skipped():
    pytest.skip("not root")

@pytest.fixture(scope="module")
def package():
    raise ArchiveError("apt-get download failed: Could not connect")

@pytest.mark.parametrize("number", [1, 2])
def test_of_a_package(package, number):
    pass

def test_that_gets_one():
    raise ArchiveError("Maven could not get it")
"""


@pytest.mark.parametrize("processes", ["0", "1"])
def test_notes_skips_and_packages_that_cannot_be_had_are_listed_once(pytester: pytest.Pytester, processes: str) -> None:
    pytester.makepyfile(test_notes=TESTS)
    pytester.makeconftest(
        "from tests.support.not_run import ListNotRun\n"
        "def pytest_configure(config):\n    config.pluginmanager.register(ListNotRun())\n"
    )
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\nasyncio_default_fixture_loop_scope = function\n")
    result = pytester.runpytest_inprocess("-n", processes)
    result.assert_outcomes(passed=2, skipped=4)
    listed = sorted(line for line in result.outlines if line.startswith("not run here: "))
    assert listed == [
        "not run here: a refused value: no such setting",
        "not run here: huge pages: none are reserved",
        "not run here: test_notes.py::test_of_a_package[1]: apt-get download failed: Could not connect",
        "not run here: test_notes.py::test_of_a_package[2]: apt-get download failed: Could not connect",
        "not run here: test_notes.py::test_skipped: not root",
        "not run here: test_notes.py::test_that_gets_one: Maven could not get it",
    ]
