"""The engine's test programs that need no server. Those that do are in tests/server/test_engine.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.engine import CARGO_TEST, ENGINE, Target, build_test_programs, run_test_program, targets

TARGETS = targets()
SERVERLESS = [target for target in TARGETS if not target.needs_server and not target.judges_times]
TIMED = [target for target in TARGETS if not target.needs_server and target.judges_times]


@pytest.fixture(scope="module")
def programs() -> dict[str, tuple[Path, Path]]:
    return build_test_programs()


def run(target: Target, programs: dict[str, tuple[Path, Path]]) -> None:
    program, folder = programs[target.id]
    run_test_program([str(program), "--test-threads=2"], folder, {**os.environ, "RUST_BACKTRACE": "0"})


def test_every_target_with_tests_is_run(programs: dict[str, tuple[Path, Path]]) -> None:
    assert sorted(programs) == [target.id for target in TARGETS]


@pytest.mark.parametrize("target", SERVERLESS, ids=lambda target: target.id)
def test_a_program_passes(target: Target, programs: dict[str, tuple[Path, Path]]) -> None:
    run(target, programs)


@pytest.mark.alone
@pytest.mark.parametrize("target", TIMED, ids=lambda target: target.id)
def test_a_program_that_judges_times_passes(target: Target, programs: dict[str, tuple[Path, Path]]) -> None:
    run(target, programs)


def test_the_examples_of_the_documentation_compile() -> None:
    run_test_program([*CARGO_TEST, "--doc"], ENGINE, dict(os.environ))
