"""A failing test is tried again only where CPUs were taken away meanwhile, with fixtures made anew, for a while."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest

from tests.support.disturbed_host import FURTHER_ATTEMPTS_S, TryAgainWhereDisturbed

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[3]
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
    ("stolen_share", "stall_s", "attempt_s", "passed", "failed", "skipped"),
    [
        (0.2, 0.0, 0, 2, 1, 1),
        (0.01, 0.0, 0, 1, 3, 0),
        (0.0, 0.5, 0, 2, 1, 1),
        (0.0, 0.01, 0, 1, 3, 0),
        (0.2, 0.0, FURTHER_ATTEMPTS_S + 1, 1, 2, 1),
        (0.2, 0.0, FURTHER_ATTEMPTS_S / 2, 2, 1, 1),
    ],
)
def test_only_what_was_disturbed_is_tried_again(
    pytester: pytest.Pytester,
    stolen_share: float, stall_s: float, attempt_s: float, passed: int, failed: int, skipped: int,
) -> None:  # fmt: skip
    ticks, times_s, stalls_s = count(0, 100), count(0.0, attempt_s), count(0.0, stall_s)
    plugin = TryAgainWhereDisturbed(
        lambda: (stolen_share * (tick := next(ticks)), tick), lambda: next(times_s), lambda: next(stalls_s)
    )
    pytester.makepyfile(TESTS)
    pytester.makeini(INI)
    pytester.runpytest_inprocess(plugins=[plugin]).assert_outcomes(passed=passed, failed=failed, skipped=skipped)


WATCHING = """
import time
from tests.support.stalls import Stalls
stalls = Stalls()
stalls()
print("up", flush=True)
deadline_s = time.monotonic() + 60
while stalls() < 0.7 and time.monotonic() < deadline_s:
    time.sleep(0.01)
print("noticed" if stalls() >= 0.7 else "not noticed", flush=True)
"""


def test_that_the_host_stood_still_is_noticed() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", WATCHING], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.0)  # the stall
        process.send_signal(signal.SIGCONT)
        assert process.stdout.readline() == "noticed\n"


def test_what_disturbed_the_fixture_of_a_module_excuses_its_later_tests(pytester: pytest.Pytester) -> None:
    cpu_times = iter([(0, 0), (50, 100), (50, 150), (50, 150), (50, 250)])
    plugin = TryAgainWhereDisturbed(lambda: next(cpu_times), lambda: 0.0, lambda: 0.0)
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
