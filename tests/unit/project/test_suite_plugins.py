"""The plugins that every run of the tests uses: what they leave for ./test, and what counts as not run."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from tests.support.foreign_load import NotJudgedUnderForeignLoad
from tests.support.progress import Progress

pytest_plugins = ["pytester"]
INI = "[pytest]\nmarkers = needs_cpus\nasyncio_default_fixture_loop_scope = function\n"
JUDGES = """
import pytest
@pytest.mark.needs_cpus
def test_judges_the_host():
    assert False
@pytest.mark.needs_cpus
def test_judges_and_passes():
    pass
def test_fails_always():
    assert False
"""


@pytest.mark.parametrize(
    ("used", "stolen", "failed", "skipped"), [(1, 1, 2, 0), (90, 1, 1, 1), (1, 10, 1, 1), (10, 3, 2, 0)]
)
def test_what_judges_the_host_fails_only_where_the_host_was_ours(
    pytester: pytest.Pytester, used: int, stolen: int, failed: int, skipped: int
) -> None:
    pytester.makepyfile(JUDGES)
    pytester.makeini(INI)
    ticks = ((used * number, stolen * number, 100 * number) for number in count())
    plugin = NotJudgedUnderForeignLoad(lambda: next(ticks), lambda: None)
    pytester.runpytest_inprocess(plugins=[plugin]).assert_outcomes(passed=1, failed=failed, skipped=skipped)


FAILS_EVERYWHERE = """
import os, pytest
@pytest.fixture
def broken():
    raise OSError("set-up")
@pytest.fixture
def left():
    yield
    raise OSError("clean-up")
def test_set_up(broken): pass
def test_call(): assert 1 == 2
def test_clean_up(left): pass
def test_passes(): pass
"""
LOSES_ITS_PROCESS = "import os\ndef test_ends_its_process(): os._exit(1)\n"


@pytest.mark.slow
@pytest.mark.parametrize("processes", [(), ("-n1",)])
def test_whatever_failed_is_listed_with_its_reason(pytester: pytest.Pytester, processes: tuple[str, ...]) -> None:
    stem = pytester.path / "part"
    pytester.makepyfile(test_fails=FAILS_EVERYWHERE, test_is_none="import nothing_like_it\n")
    expected = {
        "test_fails.py::test_set_up": "OSError: set-up",
        "test_fails.py::test_call": "assert 1 == 2",
        "test_fails.py::test_clean_up": "OSError: clean-up",
        "test_is_none.py": "ModuleNotFoundError: No module named 'nothing_like_it'",
    }
    if processes:
        pytester.makepyfile(test_lost=LOSES_ITS_PROCESS)
        expected["test_lost.py::test_ends_its_process"] = "worker 'gw0' crashed"
    pytester.makeini(INI)
    run = pytester.runpytest_inprocess(*processes, "--continue-on-collection-errors", plugins=[Progress(stem)])
    assert run.ret == pytest.ExitCode.TESTS_FAILED
    assert sorted((pytester.path / "part.failed").read_text().splitlines()) == sorted(expected)
    reasons = dict(line.split("\t") for line in (pytester.path / "part.reasons").read_text().splitlines())
    assert {nodeid: reason[: len(expected[nodeid])] for nodeid, reason in reasons.items()} == expected


def test_the_tests_that_are_running_are_named(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "part")
    progress.all = 3
    for nodeid in ("a", "b", "c"):
        progress.pytest_runtest_logstart(nodeid)
    progress.pytest_runtest_logfinish("a")
    text = (tmp_path / "part.progress").read_text()
    assert text.startswith("part: 1 of 3 done; b (since ")
    assert "; c (since " in text
