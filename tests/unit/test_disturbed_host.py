"""A failing test is tried again only where CPUs were taken away meanwhile, with fixtures made anew."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]
CONFTEST = """
from tests.support import disturbed_host
ticks = iter(range(0, 10_000, 100))
disturbed_host.cpu_times = lambda: ({stolen} * (tick := next(ticks)), tick)
def pytest_runtest_protocol(item, nextitem):
    disturbed_host.run_again_where_disturbed(item, nextitem)
    return True
"""
TESTS = """
import pytest
made = []
@pytest.fixture(scope="module")
def thing():
    made.append(len(made) + 1)
    return made[-1]
def test_fails_with_the_first_two(thing):
    assert thing > 2
def test_fails_always(thing):
    assert thing < 0
@pytest.mark.needs_cpus
def test_judges_the_host(thing):
    assert thing < 0
def test_passes(thing):
    assert thing
"""


@pytest.mark.parametrize(("stolen", "passed", "failed", "skipped"), [(0.2, 2, 1, 1), (0.01, 1, 3, 0)])
def test_only_what_was_disturbed_is_tried_again(
    pytester: pytest.Pytester, stolen: float, passed: int, failed: int, skipped: int
) -> None:
    pytester.makeconftest(CONFTEST.format(stolen=stolen))
    pytester.makepyfile(TESTS)
    pytester.runpytest_inprocess().assert_outcomes(passed=passed, failed=failed, skipped=skipped)
