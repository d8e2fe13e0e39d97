"""The real program with real servers: a private set of folders, the command, its processes, and what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from mydyno.failpoints import STOP_AT
from mydyno.hosts.identity import COOKIE
from mydyno.hosts.paths import HostPaths
from tests.support.patience import HANG_S, Patience, ended, pause
from tests.support.processes import processes, shown, state

Found = TypeVar("Found")
ROOT = Path(__file__).parents[2]
STUDY_LOCK = f"mydyno-test-{os.getpid()}"
"""The programs of one test process refuse each other's studies, and nobody else's."""
PASSED_ON = ("PATH", "HOME", "LANG", "PYTHONPYCACHEPREFIX", "OPENBLAS_NUM_THREADS")
"""Variables that are passed on from the environment of the tests."""
SMALL = """\
[server]
name = "mariadb-10.11"
[server.variables]
innodb_buffer_pool_size = "32M"
innodb_log_file_size = "8M"
innodb_flush_log_at_trx_commit = 0
[data]
tables = 1
rows = 2000
[validity]
steady = "report"
steal = "99%"
driver_cpu = 1
"""
"""Small data, and gates that a busy test machine does not close."""


def experiment_text(name: str, arms: str, steps: str, blocks: int = 1) -> str:
    """An experiment file on small data; its name is unique to this test process, so that its processes are too."""
    head = f'name = "{name}-{os.getpid()}"\nquestion = "Does the test pass?"\n'
    return f"{head}{SMALL}[arms]\n{arms}\n{steps}\n[design]\nblocks = {blocks}\n"


ONE_ARM = 'control = "glibc"\nglibc = { allocator = "glibc" }\n'
TWO_ARMS = ONE_ARM + 'jemalloc = { allocator = "jemalloc" }\n'
SHORT_STEP = (
    '[[steps]]\nworkload = "oltp_read_only"\ndriver = "sysbench"\nconnections = 2\nwarmup = "1s"\nmeasure = "1s"\n'
)


def wait_for(what: Callable[[], Found | None], process: subprocess.Popen[bytes], cpu_s: float = 240) -> Found:
    """Poll until there is something. Raises AssertionError where the process ends first, or patience does."""
    patience = Patience(cpu_s)
    while not patience.expired:
        before_s = time.thread_time()
        found = what()
        if found:
            return found
        assert process.poll() is None, f"the program ended with {process.returncode} before it came to that"
        pause(before_s, 0.005)
    raise AssertionError(f"did not happen within {patience}")


def lend_cache(cache: Path, own: Path) -> None:
    """Make a cache that has the common one's packages and servers, and no undo journals or data of other tests."""
    own.mkdir(exist_ok=True)
    for entry in cache.iterdir():
        if entry.name not in ("undo", "data") and not (own / entry.name).exists():
            (own / entry.name).symlink_to(entry)


@dataclass(frozen=True)
class Leftovers:
    """Everything that a study could leave behind."""

    processes: frozenset[str]
    mounts: frozenset[str]
    temporary: frozenset[str]
    run_data: frozenset[str]
    undo_journals: frozenset[str]


@dataclass
class Program:
    """The `mydyno` command with folders of its own below one folder; packages come from the common cache."""

    folder: Path
    paths: HostPaths
    prefix: list[str] = field(default_factory=list)
    """Put before the command (setpriv, nsenter)."""
    environment: dict[str, str] = field(default_factory=dict)
    start: tuple[str, ...] = ("-m", "mydyno.cli")
    """What Python executes."""

    @property
    def studies(self) -> Path:
        """Where its studies are kept."""
        return self.folder / "studies"

    @property
    def temporary(self) -> Path:
        """Its folder for sockets."""
        return self.folder / "tmp"

    def all_environment(self) -> dict[str, str]:
        """As ./test sets it, with folders of its own."""
        self.temporary.mkdir(parents=True, exist_ok=True)
        plain = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        own = {
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONSAFEPATH": "1",
            "MYDYNO_CACHE": str(self.paths.cache),
            "MYDYNO_DATA": str(self.paths.data),
            "MYDYNO_ENGINE": str(self.paths.engine),
            "MYDYNO_TEST_STUDY_LOCK": STUDY_LOCK,
            "TMPDIR": str(self.temporary),
        }
        return {**plain, **own, **self.environment}

    def command(self, *arguments: str) -> list[str]:
        """The whole command line."""
        return [*self.prefix, sys.executable, *self.start, *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run to the end."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.all_environment(),
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """The command while it runs, its output in output.txt; killed at the end where it still runs."""
        with (self.folder / "output.txt").open("wb") as output:
            process = subprocess.Popen(
                self.command(*arguments), cwd=self.folder, env=self.all_environment(), stdout=output, stderr=output
            )
        try:
            yield process
        except AssertionError as error:
            error.add_note(f"the program said:\n{self.output()}")
            raise
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    @contextmanager
    def stopped_at(self, failpoints: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """The command, stopped (SIGSTOP) at the last of these failpoints (mydyno.failpoints), reached in this order;
        its children run on.
        """
        at = replace(self, environment={**self.environment, STOP_AT: failpoints})
        with at.started(*arguments) as process:
            wait_for(lambda: state(process.pid) == "T", process)
            yield process

    def output(self) -> str:
        """What the command started last has said so far."""
        return (self.folder / "output.txt").read_text(errors="replace")

    def study(self) -> Path:
        """The only study made here."""
        (path,) = self.studies.iterdir()
        return path

    def events(self) -> list[str]:
        """The events of the study's journal so far; none where there is no study yet."""
        lines = [line for path in self.studies.glob("*/journal.jsonl") for line in path.read_text().splitlines()]
        return [json.loads(line)["event"] for line in lines if line.endswith("}")]

    def in_slices(self) -> bool:
        """Whether slices of the study were begun, by its live.jsonl."""
        return any('"state":"slice"' in path.read_text() for path in self.studies.glob("*/live.jsonl"))

    def write(self, text: str) -> str:
        """An experiment file in the folder; gives its path."""
        path = self.folder / "experiment.toml"
        path.write_text(text)
        return str(path)

    def mounts(self) -> list[str]:
        """The lines of /proc/self/mounts where the command runs."""
        shown = subprocess.run([*self.prefix, "cat", "/proc/self/mounts"], capture_output=True, text=True, check=True)
        return shown.stdout.splitlines()

    def leftovers(self) -> Leftovers:
        """What is there now of all that a study makes outside its folder."""
        data = self.paths.data
        return Leftovers(
            processes=frozenset(f"{pid} {name}" for pid, name in study_processes().items()),
            mounts=frozenset(
                line
                for line in self.mounts()
                if line.startswith("mydyno") or str(self.folder) in line or str(data) in line
            ),
            temporary=frozenset(path.name for path in self.temporary.glob("*")),
            run_data=frozenset(
                str(path) for pattern in ("runs/*", "templates/.*") for path in data.glob(pattern) if path.exists()
            ),
            undo_journals=frozenset(
                path.name for path in self.paths.undo.glob("*.jsonl") if f"-{os.getpid()}-" in path.name
            ),
        )


def study_processes() -> dict[int, str]:
    """pid → command line of every process that carries the cookie of a study of this test process."""
    name, mine = f"{COOKIE}=".encode(), f"-{os.getpid()}-".encode()
    return {
        pid: shown(command)
        for pid, command, environment in processes()
        if mine in environment and any(one.startswith(name) and mine in one for one in environment.split(b"\0"))
    }


def server_pid() -> int | None:
    """The running mariadbd of a study of this test process."""
    for pid, command in study_processes().items():
        if "mariadbd" in command.split(" ")[0] and "--defaults-file" in command:
            return pid
    return None


def end(process: subprocess.Popen[bytes], signal_number: int) -> int:
    """Send a signal, which a stopped process receives as it goes on, and give the exit code."""
    process.send_signal(signal_number)
    process.send_signal(signal.SIGCONT)
    return ended(process, "the program")


def interrupt(process: subprocess.Popen[bytes]) -> int:
    """Ctrl-C."""
    return end(process, signal.SIGINT)


def finished_files(study: Path) -> dict[str, bytes]:
    """Every file of every finished run."""
    return {
        str(path.relative_to(study)): path.read_bytes()
        for run in study.glob("blocks/*/[0-9]*/run.json")
        for path in run.parent.iterdir()
    }
