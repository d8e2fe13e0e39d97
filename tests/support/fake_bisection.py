"""A bisection on a fake host: a history of commits, what each one does to a fake server, and noise that is known."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from mydyno.bisect.bisection import describe, run_bisection
from mydyno.bisect.compare import CANDIDATE, RECORD, RESULT, BisectFolder, Tools
from mydyno.errors import BuildError, ServerError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, StepSpec
from mydyno.model.definition.source_build import BuildSpec
from mydyno.model.stored.bisection import BisectRecord, BisectResult
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment
from tests.support.memcached_commits import commit, new_repository
from tests.support.stored_schemas import validator

HOST = LocalHost("tests", None)
COMMITS = 9
SCHEMAS = {"bisection": RECORD, "bisect-result": RESULT}
STEP = StepSpec(workload="oltp_read_only", connections=(4,), warmup=0, measure=8)


class KilledError(Exception):
    """Ends the program in the middle of a slice."""


@dataclass
class World:
    """A history whose commits make a fake server slower, and a host whose noise is known."""

    paths: HostPaths
    repository: Path
    commits: list[str]
    script: Script
    effects: dict[int, float] = field(default_factory=dict)
    """Commit → what it changes queries per second by, as a fraction; it stays changed."""
    broken: frozenset[int] = frozenset()
    """Commits that do not build."""
    silent: frozenset[int] = frozenset()
    """Commits whose server does not start."""
    crashing: frozenset[int] = frozenset()
    """Commits whose server fails under load."""
    slice_sd: float = 0.01
    start_sd: float = 0.0
    skipped_s: float = 0.0
    """The time that slices took on the clock; real time passes beside it."""
    seed: int = 1
    tested: list[int] = field(default_factory=list)
    alarms: int = 0
    """So many studies begin with a second copy of the control that is slower than the first."""
    killed_at: int | None = None
    """The commit in whose study the program ends, once."""
    _commit: int = 0

    def rate(self, at: int) -> float:
        """Queries per second of a commit."""
        rate = 1000.0
        for number, effect in self.effects.items():
            rate *= 1 + effect if number <= at else 1.0
        return rate

    def rate_of(self, arm: str) -> float:
        """The rate of an arm of the present study."""
        return self.rate(self._commit if arm == CANDIDATE else 0)

    def tools(self) -> Tools:
        """The fake host, which knows what each commit does."""
        slices, starts, studies = itertools.count(), dict[tuple[str, int], float](), Counter[int]()

        def noise(*of: object) -> Random:
            # The noise of a slice does not depend on their order, which is drawn from the time at which a study began.
            return Random(repr((self.seed, self._commit, studies[self._commit], *of)))

        def qps(arm: str, copy: int, _step: object, order: Any) -> float:
            if self.killed_at == self._commit and order.id.startswith("oltp_read_only-4/2"):
                self.killed_at = None
                raise KilledError
            self.skipped_s += order.washout_s + order.measure_s
            if order.id.endswith("/1") or (arm, copy) not in starts:
                starts[arm, copy] = noise(arm, copy, order.stream).gauss(0, self.start_sd)
            differs = -0.2 if self.alarms >= 0 and arm != CANDIDATE and copy == 2 else 0.0
            slice_ = noise(arm, copy, order.stream, order.id).gauss(0, self.slice_sd)
            return self.rate_of(arm) * (1 + starts[arm, copy] + differs + slice_)

        def failing(arm: str, _copy: int, _step: object, _order: object) -> str | None:
            return "lost connection" if arm == CANDIDATE and self._commit in self.crashing else None

        self.script.slice_qps, self.script.slice_error = qps, failing
        self.script.host_speed = lambda: 1 + 0.05 * math.sin(next(slices) / 4 + self.seed)
        made = opener(self.script)

        async def open_(paths: HostPaths, asked: Experiment, study: str, path: Path, say: Any) -> Any:
            ref = asked.arm(CANDIDATE).treatments["server"]["build"]["ref"]
            self._commit = self.commits.index(ref)
            studies[self._commit] += 1
            self.alarms -= 1
            if self._commit in self.silent:
                raise ServerError("memcached ended with exit code 1")
            return await made(paths, asked, study, path, say)

        async def build(spec: BuildSpec) -> None:
            at = self.commits.index(str(spec.ref))
            if at not in (0, COMMITS - 1):
                self.tested.append(at)
            if at in self.broken:
                raise BuildError(f"the build of {at} failed\n  | line 1\n  | line 2", f"the whole log: /logs/{at}.log")

        @contextmanager
        def watch(_asked: Experiment) -> Iterator[Watched]:
            yield Watched(self.script)

        return Tools(self.paths, watch, build, open_, lambda _text: None)

    def experiment(self, *steps: StepSpec, **design: object) -> Experiment:
        """One load level unless others are given; the control is a build, and another arm is not compared."""
        plain = {"kind": "interleaved", "quiet_wait": 0, "slice": 2, "washout": 0.5}
        build = {"server": {"build": {"git": str(self.repository), "command": "make"}}}
        return experiment(
            ("plain", "other"), design={**plain, **design}, treatments={"plain": build}, steps=steps or (STEP,)
        )  # fmt: skip

    async def folder(self, path: Path, **changes: object) -> BisectFolder:
        """A new bisection between the first and the last commit."""
        asked = changes.pop("experiment", None) or self.experiment(blocks=6, cycles=4)
        good, bad = [await describe(name, self.repository, HOST) for name in (self.commits[0], self.commits[-1])]
        record = BisectRecord(
            bisection=path.name, created_unix_ns=1, mydyno_version="0", experiment=asked, good=good, bad=bad,
            commits=COMMITS - 1, **{"metric": "qps", **changes},
        )  # type: ignore[arg-type]  # fmt: skip
        return BisectFolder.create(path, record)

    async def run(self, folder: BisectFolder) -> BisectResult:
        """Run or continue it. Its files are valid by their schemas."""
        try:
            return await run_bisection(folder, self.repository, HOST, self.tools())
        finally:
            for name, file in SCHEMAS.items():
                if (folder.path / file).exists():
                    validator(name).validate(json.loads((folder.path / file).read_text()))


def made_history(folder: Path) -> tuple[Path, list[str]]:
    """(a repository with COMMITS commits in a line, their hashes); bisections only read it."""
    repository = new_repository(folder)
    return repository, [commit(repository, f"Commit {at}") for at in range(COMMITS)]
