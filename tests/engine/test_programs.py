"""The engine's test programs that need no server. Those that do are in tests/server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.engine import (
    CARGO_TEST,
    ENGINE,
    SIGN_OF_TIMES,
    Target,
    build_environment,
    build_test_programs,
    gate_first,
    run_other_tests,
    run_test_program,
    run_timed_tests,
    targets,
)

TARGETS = targets()
SERVERLESS = [target for target in TARGETS if not target.needs_server]
ENVIRONMENT = {**os.environ, "RUST_BACKTRACE": "0"}


@pytest.fixture(scope="module")
def programs() -> dict[str, tuple[Path, Path]]:
    return build_test_programs()


def test_every_target_with_tests_is_run(programs: dict[str, tuple[Path, Path]]) -> None:
    assert sorted(programs) == [target.id for target in TARGETS]


def test_every_test_that_judges_times_is_known() -> None:
    for target in TARGETS:
        if target.kind == "test":
            assert target.source.read_text().count(SIGN_OF_TIMES) == len(target.timed_tests), target.id


@pytest.mark.parametrize("target", [one for one in SERVERLESS if one.has_other_tests], ids=lambda target: target.id)
def test_a_program_passes(target: Target, programs: dict[str, tuple[Path, Path]]) -> None:
    run_other_tests(target, programs, ENVIRONMENT)


@pytest.mark.alone
@pytest.mark.parametrize("target", gate_first(SERVERLESS), ids=lambda target: target.id)
def test_a_program_passes_its_tests_of_times(target: Target, programs: dict[str, tuple[Path, Path]]) -> None:
    run_timed_tests(target, programs, ENVIRONMENT)


def test_the_examples_of_the_documentation_compile() -> None:
    run_test_program([*CARGO_TEST, "--doc"], ENGINE, build_environment(), "documentation")
