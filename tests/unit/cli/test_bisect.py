"""`mydyno bisect` by its own entry point, on a fake host: exit codes, what is printed, and how often it is wrong."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mydyno.bisect.compare import BisectFolder, comparisons_needed, rate_of_study
from mydyno.cli import bisect_runner, make_app
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.source_build import BuildSpec
from mydyno.model.stored.bisection import BisectResult
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_bisection import COMMITS, World, made_history
from tests.support.fake_environment import Watched
from tests.support.fake_script import Script

pytestmark = pytest.mark.slow

EXPERIMENT = """\
name = "fake"
question = "Which commit?"
server.build = {{ git = "{repository}", command = "make" }}
data = {{ tables = 1, rows = 1000 }}
arms = {{ control = "plain", plain = {{}} }}
steps = [{{ workload = "oltp_read_only", connections = 4, warmup = 0, measure = 8 }}]
design = {{ kind = "interleaved", quiet_wait = 0, slice = 2, washout = 0.5, cycles = 4, seed = 1 }}
"""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    return made_history(tmp_path_factory.mktemp("history") / "source")


class Program:
    """`mydyno bisect` with a fake host in place of this one, in a folder of its own."""

    def __init__(self, world: World, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.world, self.folder, self._patch = world, folder, patch
        self._calls = 0
        self.file = folder / "fake.toml"
        self.file.write_text(EXPERIMENT.format(repository=world.repository))
        patch.setattr(HostPaths, "resolve", lambda _data: world.paths)
        patch.setattr(bisect_runner, "ProgressWatcher", lambda *_: _Watcher(world.script))

    def __call__(self, *arguments: str) -> tuple[int, str]:
        """(exit code, what was printed)."""
        tools = self.world.tools()

        async def compiled(spec: BuildSpec, *_: object) -> object:
            return await tools.build(spec)

        self._calls += 1  # names have the second in which they began
        self._patch.setattr(bisect_runner, "get_compiled", compiled)
        self._patch.setattr(bisect_runner, "open_environment", tools.opener)
        done = CliRunner().invoke(make_app(["bisect"]), ["bisect", *arguments, "--bisections", str(self.bisections)])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.output

    @property
    def bisections(self) -> Path:
        """The folder of the latest call."""
        return self.folder / f"bisections-{self._calls}"

    def new(self, *arguments: str) -> tuple[int, str]:
        """A bisection between the first and the last commit, six blocks each unless told otherwise."""
        ends = ("--good", self.world.commits[0], "--bad", self.world.commits[-1])
        return self(str(self.file), *ends, *(() if "--time" in arguments else ("--blocks", "6")), *arguments)

    def last(self) -> tuple[BisectFolder, BisectResult]:
        """The newest bisection and its result."""
        folder = BisectFolder.open(next(self.bisections.iterdir()))
        result = folder.result()
        assert result is not None
        return folder, result


class _Watcher(Watched):
    def __enter__(self) -> _Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        return None


@pytest.fixture
def program(
    paths: HostPaths, history: tuple[Path, list[str]], script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Program:
    return Program(World(paths, *history, script, slice_sd=0.005), tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("effects", "broken", "code", "words"),
    [
        pytest.param({6: -0.1}, (), 0, "The first bad commit is {6} (Commit 6;", id="found"),
        pytest.param(
            {3: -0.2, 7: -0.1},
            (),
            5,
            "It is not the whole answer: it changes QPS by",
            id="not all",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            {6: -0.1}, (5, 6), 5, "The first bad commit is one of 3:", id="only a range", marks=pytest.mark.exhaustive
        ),
        pytest.param({}, (), 5, "do not differ in QPS: there is no such commit", id="no difference"),
        pytest.param({4: 0.2}, (), 5, "is better than the good end", id="better", marks=pytest.mark.exhaustive),
    ],
)
def test_the_exit_code_is_0_only_if_the_commit_is_all_there_is(
    program: Program, effects: dict[int, float], broken: Sequence[int], code: int, words: str
) -> None:
    program.world.effects, program.world.broken = effects, frozenset(broken)
    done, printed = program.new("--error", "20%")
    named = words.format(*program.world.commits)
    assert named in " ".join(printed.split()), printed
    assert done == code
    folder, _ = program.last()
    again, once_more = program(str(folder.path))
    assert (again, printed.partition("report:")[0].splitlines()[-5:]) == (
        code, once_more.partition("report:")[0].splitlines()[-5:],
    )  # fmt: skip


def test_the_error_is_divided_over_the_studies_and_stated(program: Program) -> None:
    program.world.effects = {6: -0.1}
    program.world.seed = 2  # by chance the copies differ in one of the first seed's comparisons
    planned, words = program.new("--dry-run")
    assert planned == 0
    assert "error     at most 5 % for a wrong commit: 1 % for each of 4 studies, less for each further one" in words
    code, printed = program.new()
    assert code == 0
    folder, result = program.last()
    assert "is wrong is at most 5 %" in " ".join(printed.split())
    assert result.ends is not None
    for one in (result.ends.comparison, *result.comparisons):
        study = StudyFolder.open(folder.path / one.study)
        assert study.study().experiment.verdict.error_rate == pytest.approx(0.01)
        assert study.summary().alpha == pytest.approx(0.01)
        assert one.confidence == pytest.approx(0.99)
    assert " 99 % interval " in printed


@pytest.mark.exhaustive
def test_a_smaller_error_gives_wider_intervals(program: Program) -> None:
    program.world.effects = {6: -0.1}
    widths = []
    for error in ("20%", "2%"):
        program.new("--error", error)
        ends = program.last()[1].ends
        assert ends is not None and ends.comparison.high is not None and ends.comparison.low is not None
        widths.append(ends.comparison.high - ends.comparison.low)
    assert widths[0] < widths[1]


@pytest.mark.parametrize("error", ["0", "60%", "-1%", "five"])
def test_an_error_that_cannot_be_is_refused(program: Program, error: str) -> None:
    with pytest.raises(Exception, match="--error") as refused:
        program.new(f"--error={error}")
    assert type(refused.value).__name__ == "UserError"


def test_the_studies_of_a_bisection_share_its_error_however_many_there_are() -> None:
    for commits in (1, 2, 12, 1000):
        rates = [rate_of_study(0.05, commits, made) for made in range(2000)]
        assert 0.0499 < sum(rates) <= 0.05
        assert rates == sorted(rates, reverse=True)
        assert len(set(rates[: comparisons_needed(commits)])) == 1


TRIALS = int(os.environ.get("MYDYNO_TEST_BISECTIONS", "3"))
ERROR = 0.2
"""Large, so that so few trials would show a bound that does not hold."""


@pytest.mark.parametrize(("effect", "noise"), [(-0.06, 0.02), (-0.03, 0.03)], ids=["clear", "hardly to be seen"])
@pytest.mark.exhaustive
def test_a_wrong_commit_is_named_no_more_often_than_the_error_allows(
    program: Program, effect: float, noise: float
) -> None:
    """One change at a random place, under noise in each slice and between starts; seeded.

    MYDYNO_TEST_BISECTIONS=100 makes so many of each.
    """
    world, states = program.world, Counter[str]()
    world.slice_sd, world.start_sd = noise, noise / 2
    for trial in range(TRIALS):
        culprit = 1 + trial % (COMMITS - 1)
        world.effects, world.seed = {culprit: effect}, 100 + trial
        code, _ = program.new("--error", f"{ERROR * 100:g}%")
        result = program.last()[1]
        named = [one.hash for one in (*filter(None, [result.first_bad]), *result.suspects)]
        wrong = bool(named) and world.commits[culprit] not in named
        states["wrong" if wrong else result.state] += 1
        assert code in (0, 5)
    print(effect, dict(states))
    # Three standard deviations above the bound, so that chance does not fail the test.
    assert states["wrong"] <= ERROR * TRIALS + 3 * (ERROR * (1 - ERROR) * TRIALS) ** 0.5
    assert states.total() == TRIALS
