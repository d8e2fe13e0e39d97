"""How test programs of the engine are run and repeated, with a shell script in place of a program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import engine

OUTPUT = """
running 3 tests
..F
failures:

---- the_third stdout ----

thread 'the_third' panicked at tests/x.rs:1:1:
assertion failed: `third`

failures:
    the_third

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""


class Program:
    """Writes its arguments into the file `arguments`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.not_run: list[str] = []
        self.file = folder / "program"

    def answers(self, output: str, exit_code: int) -> None:
        (self.folder / "output").write_text(output)
        self.file.write_text(f'#!/bin/sh\necho "$@" >arguments\ncat output\nexit {exit_code}\n')
        self.file.chmod(0o755)

    def run(self, *tests: str) -> str:
        """Its arguments."""
        engine.run_test_program([str(self.file), "--exact"], self.folder, {"PATH": "/bin:/usr/bin"}, "a-test-b", tests,
                                self.not_run.append)  # fmt: skip
        return (self.folder / "arguments").read_text().strip()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.delenv("MYDYNO_TEST_LOGS", raising=False)
    monkeypatch.delenv("MYDYNO_TEST_AGAIN", raising=False)
    return Program(tmp_path)


def test_a_failure_names_the_tests_and_shows_what_they_printed(program: Program) -> None:
    program.answers(OUTPUT, engine.TESTS_FAILED)
    with pytest.raises(AssertionError) as failure:
        program.run()
    first, again, *words = str(failure.value).splitlines()
    assert first == "failed: the_third"
    assert again == f"again: cd {program.folder} && {program.file} --exact the_third"
    assert words[0] == "---- the_third stdout ----"
    assert words[-1] == "assertion failed: `third`"


def test_only_the_failed_tests_are_executed_again(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = program.folder / "logs"
    monkeypatch.setenv("MYDYNO_TEST_LOGS", str(logs))
    program.answers(OUTPUT, engine.TESTS_FAILED)
    with pytest.raises(AssertionError):
        program.run()
    assert (logs / "rust" / "a-test-b").read_text() == "the_third\n"
    program.answers("ok", 0)
    assert program.run() == "--exact"  # another run of everything
    monkeypatch.setenv("MYDYNO_TEST_AGAIN", "1")
    assert program.run() == "--exact the_third"
    assert program.run("the_second", "the_third") == "--exact the_third"
    (logs / "rust" / "a-test-b").unlink()
    assert program.run("the_second") == "--exact the_second"


def test_a_program_that_dies_is_executed_again_as_a_whole(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYDYNO_TEST_LOGS", str(program.folder / "logs"))
    program.answers("running 2 tests\n.", 134)
    with pytest.raises(AssertionError, match=r"running 2 tests"):
        program.run()
    assert not (program.folder / "logs").exists()


def test_what_was_not_run_is_listed_and_an_unset_variable_is_a_failure(program: Program) -> None:
    program.answers("NOT RUN: a_test: server 10.11 has no zstd\nNOT RUN: b_test: the host took a CPU away\n", 0)
    program.run()
    assert program.not_run == ["a_test: server 10.11 has no zstd", "b_test: the host took a CPU away"]
    program.answers("NOT RUN: c_test: DYNO_TEST_MEMCACHED is not set (./test sets it)\n", 0)
    with pytest.raises(AssertionError, match="DYNO_TEST_MEMCACHED is not set"):
        program.run()


def test_no_program_ends_because_nobody_reads_what_it_prints() -> None:
    """println! and eprintln! panic on a pipe without a reader; dyno_core::streams and dyno_core::tell! do not."""
    printing = re.compile(r"^(?!\s*//).*\be?print(ln)?!", re.MULTILINE)
    sources = [path for path in engine.ENGINE.glob("*/src/**/*.rs") if "tests" not in path.stem]
    assert len(sources) > 100
    found = {path: printing.findall(path.read_text().partition("#[cfg(test)]")[0]) for path in sources}
    assert [str(path) for path, uses in found.items() if uses] == []
