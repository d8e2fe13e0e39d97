"""A failing test is tried again only where CPUs were taken away meanwhile, with fixtures made anew, for a while."""

from __future__ import annotations

from itertools import count

import pytest

from tests.support.disturbed_host import FURTHER_ATTEMPTS_S, TryAgainWhereDisturbed

pytest_plugins = ["pytester"]
INI = "[pytest]\nmarkers = needs_cpus\nasyncio_default_fixture_loop_scope = function\n"
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


@pytest.mark.parametrize(
    ("stolen_share", "attempt_s", "passed", "failed", "skipped"),
    [
        (0.2, 0, 2, 1, 1),
        (0.01, 0, 1, 3, 0),
        (0.2, FURTHER_ATTEMPTS_S + 1, 1, 2, 1),
        (0.2, FURTHER_ATTEMPTS_S / 2, 2, 1, 1),
    ],
)
def test_only_what_was_disturbed_is_tried_again(
    pytester: pytest.Pytester, stolen_share: float, attempt_s: float, passed: int, failed: int, skipped: int
) -> None:
    ticks, times_s = count(0, 100), count(0.0, attempt_s)
    plugin = TryAgainWhereDisturbed(lambda: (stolen_share * (tick := next(ticks)), tick), lambda: next(times_s))
    pytester.makepyfile(TESTS)
    pytester.makeini(INI)
    pytester.runpytest_inprocess(plugins=[plugin]).assert_outcomes(passed=passed, failed=failed, skipped=skipped)


def test_what_disturbed_the_fixture_of_a_module_excuses_its_later_tests(pytester: pytest.Pytester) -> None:
    cpu_times = iter([(0, 0), (50, 100), (50, 150), (50, 150), (50, 250)])
    plugin = TryAgainWhereDisturbed(lambda: next(cpu_times), lambda: 0.0)
    pytester.makepyfile(
        """
        import pytest
        made = []
        @pytest.fixture(scope="module")
        def thing():
            made.append(1)
            return len(made)
        def test_passes(thing):
            assert thing == 1
        def test_needs_a_new_thing(thing):
            assert thing == 2
        """
    )
    pytester.makeini(INI)
    pytester.runpytest_inprocess(plugins=[plugin]).assert_outcomes(passed=2)
