"""server.build: what an arm may leave to [server], every mistake's words, and how several builds alternate."""

from __future__ import annotations

from collections import Counter

import pytest

from mydyno.cli.gate import with_commits
from mydyno.errors import UserError
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.thresholds import with_thresholds
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import vocabulary
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.plan import make_plan
from mydyno.model.definition.source_build import repository_name

TEXT = """name = "x"
question = "Which commit is faster?"
[server.build]
git = "/src/memcached.git"
command = "make"
environment = { CC = "gcc", CFLAGS = "-O2" }
[data]
workload = "kv"
[arms]
control = "old"
old = { server.build.ref = "1.6.17" }
new = { server.build = { ref = "1.6.18", builds = 3, environment = { CFLAGS = "-O3" } } }
plain = { memcached = { memory = "64M" } }
[[steps]]
workload = "kv_get"
[verdict]
primary = "ops"
"""


def parse(text: str, *settings: str) -> Experiment:
    return parse_experiment(TomlSource.parse("x.toml", text), vocabulary(), None, settings)


def mistakes(text: str) -> str:
    with pytest.raises(UserError) as error:
        parse(text)
    return error.value.message


def builds(experiment: Experiment) -> dict[str, dict[str, object]]:
    return {arm.name: arm.treatments["server"]["build"] for arm in experiment.arms}


def test_an_arm_takes_from_the_experiments_build_what_it_does_not_set() -> None:
    found = builds(parse(TEXT))
    assert found["old"]["ref"] == "1.6.17"
    assert found["old"]["git"] == "/src/memcached.git"
    assert (found["new"]["builds"], found["new"]["environment"]) == (3, {"CC": "gcc", "CFLAGS": "-O3"})
    assert "ref" not in found["plain"]
    assert found["plain"]["command"] == "make"


def test_factors_and_settings_reach_into_a_build() -> None:
    factors = (
        TEXT[: TEXT.index("[arms]")]
        + (
            '[factors]\ncontrol = "a-64M"\n[factors.commit]\na.server.build.ref = "a"\nb.server.build.ref = "b"\n'
            '[factors.memory]\n64M.memcached.memory = "64M"\n1M.memcached.memory = "1M"\n'
        )
        + TEXT[TEXT.index("[[steps]]") :]
    )
    assert {name: build["ref"] for name, build in builds(parse(factors)).items()} == {
        "a-64M": "a", "a-1M": "a", "b-64M": "b", "b-1M": "b"
    }  # fmt: skip
    assert builds(parse(TEXT, "server.build.command=ninja"))["old"]["command"] == "ninja"
    no_builds = "\n".join(line for line in TEXT.splitlines() if not line.startswith(("old =", "new ="))) + "\n"
    named = parse(no_builds.replace('"old"', '"plain"'), "server.name=memcached")
    assert (named.server.build, named.server.name) == (None, "memcached")


def test_another_source_of_an_arm_replaces_repository_and_commit() -> None:
    found = builds(parse(TEXT.replace('ref = "1.6.18"', 'source = "/src/mine"')))
    assert found["new"]["source"] == "/src/mine"
    assert "git" not in found["new"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('command = "make"', "", "x.toml:3: server.build.command: is missing"),
        ('git = "/src/memcached.git"', "", "server.build: has no source; allowed: git = …, or source = …"),
        ('git = "/src/memcached.git"', 'git = "/a"\nsource = "/b"', "server.build: has both git and source"),
        ('git = "/src/memcached.git"', 'giit = "/a"', "server.build.giit: unknown key"),
        ("builds = 3", "builds = 0", 'arms.new.server.build.builds = 0: out of range; allowed: >= 1'),
        ("builds = 3", "bilds = 3", "arms.new.server.build.bilds: "),
        ('ref = "1.6.18"', 'ref = "--upload-pack=x"', "arms.new.server.build.ref"),
        ('ref = "1.6.18"', 'source = "/b", ref = "x"', "arms.new.server.build"),
        ('[server.build]', 'server.name = "memcached"\n[server.build]', "server: says name, build; allowed: exactly"),
    ],
)  # fmt: skip
def test_a_mistake_names_its_key(old: str, new: str, words: str) -> None:
    assert old in TEXT
    assert words in mistakes(TEXT.replace(old, new, 1))


def test_builds_alternate_and_the_two_copies_of_the_control_never_have_the_same() -> None:
    text = TEXT.replace('old = { server.build.ref = "1.6.17" }', 'old = { server.build = { ref = "a", builds = 4 } }')
    plan = make_plan(parse(text), blocks=12)
    used: dict[tuple[str, int], list[int]] = {}
    for block in plan.blocks:
        of_block = {(run.arm, run.copy_number): run.build for run in block.runs}
        assert of_block["old", 1] != of_block["old", 2]
        for key, build in of_block.items():
            used.setdefault(key, []).append(build)
    assert Counter(used["old", 1]) == Counter(used["old", 2]) == dict.fromkeys((1, 2, 3, 4), 3)
    assert Counter(used["new", 1]) == dict.fromkeys((1, 2, 3), 4)
    assert set(used["plain", 1]) == {1}
    pairs = Counter(zip(used["old", 1], used["new", 1], strict=True))
    assert len(pairs) > 4, "the pairs of builds vary over the blocks"


def test_a_plan_without_several_builds_is_stored_as_before() -> None:
    plan = make_plan(parse(TEXT.replace("builds = 3, ", "")), blocks=2)
    assert "build" not in plan.model_dump()["blocks"][0]["runs"][0]


@pytest.mark.parametrize(
    ("git", "name"),
    [("https://github.com/MariaDB/server.git", "server"), ("/src/memcached/.git", "memcached"),
     ("git@host:me/my fork.git", "my-fork"), ("host:server", "server"), ("/", "source")],
)  # fmt: skip
def test_a_repository_is_named_by_its_last_part(git: str, name: str) -> None:
    assert repository_name(git) == name


GATED = """name = "gated"
question = "Is the pull request as fast?"
server.build = { git = "/src/memcached", command = "make", builds = 2 }
[data]
workload = "kv"
[arms]
control = "now"
now = {}
[[steps]]
workload = "kv_get"
connections = 4
[thresholds]
qps = "no worse than -2%"
"""


@pytest.mark.parametrize("arms", ["now = {}\n", 'now = {}\nfast = { server.build.ref = "fast" }\n'])
def test_two_commits_become_the_arms_of_a_gate(arms: str) -> None:
    experiment = parse_experiment(TomlSource.parse("x.toml", GATED.replace("now = {}\n", arms)), vocabulary())
    two = with_thresholds(with_commits(experiment, "main", "abc1234"), [])
    assert two.control == "base"
    builds = {arm.name: arm.treatments["server"]["build"] for arm in two.arms}
    assert {name: (one["ref"], one["git"], one["builds"]) for name, one in builds.items()} == {
        "base": ("main", "/src/memcached", 2),
        "head": ("abc1234", "/src/memcached", 2),
    }


@pytest.mark.parametrize(
    ("base", "head", "words"),
    [("main", "main", "are the same commit, main"), ("main", "--help", "--head '--help': not a commit, tag or branch")],
)
def test_wrong_commits_of_a_gate_are_named(base: str, head: str, words: str) -> None:
    experiment = parse_experiment(TomlSource.parse("x.toml", GATED), vocabulary())
    with pytest.raises(UserError) as error:
        with_commits(experiment, base, head)
    assert words in error.value.message


def test_a_threshold_of_another_arm_does_not_fit_two_commits() -> None:
    text = GATED.replace("-2%", "-2% for fast")
    experiment = parse_experiment(TomlSource.parse("x.toml", text), vocabulary())
    with pytest.raises(UserError, match="of other arms: fast"):
        with_commits(experiment, "a", "b")
