"""The engine's test programs as Cargo builds them: which there are, what each needs, and how one is run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import ROOT, first_in_gate
from tests.support.not_run import note_not_run

ENGINE = Path(os.environ.get("MYDYNO_TEST_ENGINE", ROOT / "engine"))
"""What is compiled: in ./test a copy (tests/support/mirror.py)."""
CLIPPY_ARGS = "-Dwarnings__CLIPPY_HACKERY__"
"""How Clippy is given its arguments where it is the compiler."""
CARGO_TEST = ["cargo", "test", "--locked", "--quiet"]
SIGNS_OF_A_SERVER = ("DYNO_TEST_", "PrivateServer", "Memcached::", "by_socket(", "by_tcp(", "variable(", "setting(")
"""In a test program's own file: it needs a server or sysbench, which it finds by variables of the environment."""
SIGN_OF_TIMES = "on_a_still_host("
"""In a test: it judges times, and repeats what another program's load disturbs."""
TEST = re.compile(r"^#\[test\]\s+fn (\w+)\(", re.MULTILINE)
THREADS = "--test-threads=4"
"""Most tests wait: for a load of a set rate to end, or for a time-out."""
UNSET = re.compile(r": DYNO_TEST_\w+ is not set")
FAILURES = re.compile(r"^failures:\n\n(---- .*?)^failures:\n((?:    \S+\n)+)", re.MULTILINE | re.DOTALL)
"""In the output of a test program: what the failed tests printed, and their names."""
TESTS_FAILED = 101
"""Exit code of a test program that executed all its tests."""
TIMES_IN_GATE = ("kv_losses", "null", "outputs", "slices_other")
"""Test programs whose tests of times are in the gate; those of the others take half a minute, alone."""


@dataclass(frozen=True)
class Target:
    """A Cargo target with tests."""

    package: str
    kind: str
    name: str
    source: Path

    @property
    def id(self) -> str:
        return f"{self.package}-{self.kind}-{self.name}"

    @property
    def needs_server(self) -> bool:
        """Read from its file. A program that is wrongly taken for one without a server fails in run_test_program."""
        return self.kind == "test" and any(sign in self.source.read_text() for sign in SIGNS_OF_A_SERVER)

    @property
    def timed_tests(self) -> list[str]:
        """Names of its tests that judge times: they run alone."""
        if self.kind != "test":
            return []
        _, *parts = TEST.split(self.source.read_text())  # name, text up to the next test, name, …
        return [name for name, text in zip(parts[::2], parts[1::2], strict=True) if SIGN_OF_TIMES in text]

    @property
    def has_other_tests(self) -> bool:
        """Whether some of its tests, or all, do not judge times."""
        return self.kind != "test" or len(TEST.findall(self.source.read_text())) > len(self.timed_tests)


def targets() -> list[Target]:
    """Every target with tests by Cargo's own knowledge, before anything is built."""
    command = ["cargo", "metadata", "--no-deps", "--format-version=1", "--locked"]
    packages = json.loads(subprocess.run(command, cwd=ENGINE, capture_output=True, check=True).stdout)["packages"]
    found = [
        Target(package["name"], target["kind"][0], target["name"], Path(target["src_path"]))
        for package in packages
        for target in package["targets"]
        if target["test"]
    ]
    return sorted(found, key=lambda target: target.id)


def compiler() -> dict[str, str]:
    """As in ./test: what the lint has compiled is not compiled again."""
    return {"RUSTC_WORKSPACE_WRAPPER": str(shutil.which("clippy-driver")), "CLIPPY_ARGS": CLIPPY_ARGS}


def build_environment() -> dict[str, str]:
    """For Cargo."""
    return {"CARGO_TARGET_DIR": str(ENGINE / "target"), **compiler(), **os.environ}


def build_test_programs() -> dict[str, tuple[Path, Path]]:
    """{target's id: (its test program, the folder where Cargo would run it)}; built where they are not yet."""
    command = [*CARGO_TEST, "--no-run", "--message-format=json"]
    done = subprocess.run(
        command, cwd=ENGINE, env=build_environment(), capture_output=True, text=True, timeout=1500, check=False
    )
    assert done.returncode == 0, done.stderr
    found = {}
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            folder = Path(message["manifest_path"]).parent
            target = message["target"]
            found[f"{folder.name}-{target['kind'][0]}-{target['name']}"] = (Path(message["executable"]), folder)
    return found


def example(name: str) -> Path:
    """A program of an examples/ folder; Cargo builds them with the test programs."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ENGINE / "target")) / "debug" / "examples" / name


def gate_first(among: Sequence[Target]) -> list[Any]:
    """For pytest.mark.parametrize: those with tests that judge times; in the gate only those of TIMES_IN_GATE."""
    timed = [target for target in among if target.timed_tests]
    inside = [target for target in timed if target.name in TIMES_IN_GATE]
    return first_in_gate([*inside, *(target for target in timed if target not in inside)], len(inside))


def run_timed_tests(target: Target, programs: dict[str, tuple[Path, Path]], environment: dict[str, str]) -> None:
    """Run the tests that judge times, alone."""
    program, folder = programs[target.id]
    command = [str(program), THREADS, "--exact"]
    run_test_program(command, folder, environment, f"{target.id}-times", target.timed_tests)


def run_other_tests(
    target: Target, programs: dict[str, tuple[Path, Path]], environment: dict[str, str], server: str = ""
) -> None:
    """All but those that judge times. `server`: names the server, where it is not the usual one."""
    program, folder = programs[target.id]
    skipped = [word for name in target.timed_tests for word in ("--skip", name)]
    run_test_program([str(program), THREADS, "--exact", *skipped], folder, environment, f"{target.id}{server}")


def run_test_program(
    command: list[str],
    folder: Path,
    environment: dict[str, str],
    run: str,
    tests: Sequence[str] = (),
    note: Callable[[str], None] = note_not_run,
) -> None:
    """Fail with the names of the tests that failed, and what these printed. What was not run is listed at the end; a
    variable that is not set is a failure.

    `run` names this run: the failed tests go to rust/RUN in $MYDYNO_TEST_LOGS, and with MYDYNO_TEST_AGAIN=1 only those
    are executed. `tests`: only these, else all.
    """
    logs = os.environ.get("MYDYNO_TEST_LOGS")
    file = Path(logs) / "rust" / run if logs else None
    if file is not None and file.exists() and os.environ.get("MYDYNO_TEST_AGAIN") == "1":
        tests = file.read_text().splitlines()
    done = subprocess.run(
        [*command, *tests], cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    not_run = [line for line in (done.stderr + done.stdout).splitlines() if line.startswith("NOT RUN: ")]
    for line in not_run:
        note(line.removeprefix("NOT RUN: "))
    failed, words = failures(done.stdout) if done.returncode == TESTS_FAILED else ([], "")
    if file is not None and failed:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{name}\n" for name in failed))
    if failed:
        again = shlex.join([command[0], "--exact", *failed])
        raise AssertionError(f"failed: {', '.join(failed)}\nagain: cd {folder} && {again}\n{words}")
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    assert not any(UNSET.search(line) for line in not_run), not_run


def failures(output: str) -> tuple[list[str], str]:
    """The names of the tests that failed, and what these printed; empty if the output has no list of them."""
    found = FAILURES.search(output)
    return (found[2].split(), found[1].rstrip()) if found else ([], "")
